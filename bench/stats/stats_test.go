package stats

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := Median(tc.values); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, tc := range []struct {
		values []int
		p      float64
		want   int
	}{
		{nil, 50, 0},
		{[]int{7}, 0, 7},
		{[]int{7}, 100, 7},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 100, 100},
		{[]int{1, 2, 3}, 50, 2},
	} {
		if got := Percentile(tc.values, tc.p); got != tc.want {
			t.Errorf("Percentile(%v, %v) = %v, want %v", tc.values, tc.p, got, tc.want)
		}
	}
}

func TestStint(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		events []time.Duration
		want   time.Duration
	}{
		"none":           {nil, 0},
		"late":           {[]time.Duration{250 * ms}, 0},
		"one":            {[]time.Duration{3 * ms}, 3 * ms},
		"out of order":   {[]time.Duration{200 * ms, 3 * ms}, 200 * ms},
		"then a gap":     {[]time.Duration{3 * ms, 9 * ms, 259 * ms, 260 * ms}, 9 * ms},
		"a smaller gap":  {[]time.Duration{3 * ms, 9 * ms, 258 * ms}, 258 * ms},
		"before it even": {[]time.Duration{0, 0}, 0},
	} {
		if got := Stint(tc.events, 250*ms); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
