package chart

import (
	"math"
	"slices"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.5: "0.5", 3: "3", 12.34: "12.3", 123.4: "123", 9999: "9999", 10000: "10k", 1.5e6: "1.5M",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestPowers(t *testing.T) {
	for name, tc := range map[string]struct {
		low, high float64
		want      []string
	}{
		"from zero":  {0, 2000, []string{"0", "1", "10", "100", "1000"}},
		"below one":  {0.01, 1, []string{"0.01", "0.1", "1"}},
		"in between": {20, 2000, []string{"100", "1000"}},
	} {
		var got []string
		for _, tick := range (powers{}).Ticks(tc.low, tc.high) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		low, high float64
		want      []string
	}{
		"by ones":      {0, 7.9, []string{"0", "1", "2", "3", "4", "5", "6", "7"}},
		"by fives":     {0, 31, []string{"0", "5", "10", "15", "20", "25", "30"}},
		"by hundreds":  {150, 650, []string{"200", "300", "400", "500", "600"}},
		"by fractions": {0, 0.3, []string{"0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}},
	} {
		var got []string
		for _, tick := range (steps{}).Ticks(tc.low, tc.high) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestLogScale(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 9: 0.5, 99: 1} {
		if got := (logScale{}).Normalize(0, 99, x); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", x, got, want)
		}
	}
}
