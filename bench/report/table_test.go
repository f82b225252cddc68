package report

import (
	"math"
	"testing"
)

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   string
	}{
		"nothing":    {nil, "–"},
		"one":        {[]float64{3}, "3"},
		"equal":      {[]float64{3, 3, 3}, "3"},
		"three":      {[]float64{30, 1, 2}, "2 (1–30)"},
		"digits":     {[]float64{0.12345, 1.2345, 123.45}, "1.23 (0.123–123)"},
		"once never": {[]float64{1500, math.Inf(1), 1000}, "1500 (1000–never)"},
		"never":      {[]float64{math.Inf(1)}, "never"},
	} {
		if got := spreadOf(tc.values).String(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestMarkdownMarksLosses(t *testing.T) {
	only := func(values ...float64) []spread {
		var all []spread
		for _, v := range values {
			all = append(all, spreadOf([]float64{v}))
		}
		return all
	}
	const head = "| fault | load_balance | A | B |\n|---|--:|--:|--:|\n"
	never, none := math.Inf(1), math.NaN()
	for name, tc := range map[string]struct {
		figures   []spread
		better    order
		tolerance float64
		want      string
	}{
		"best":            {only(1, 2, 3), lowerIsBetter, 0, "| x | 1 | 2 | 3 |\n"},
		"as good":         {only(2, 2, 3), lowerIsBetter, 0, "| x | 2 | 2 | 3 |\n"},
		"worse than one":  {only(2, 1, 3), lowerIsBetter, 0, "| x | 2 ▼ | 1 | 3 |\n"},
		"hardly worse":    {only(104, 100, 300), lowerIsBetter, 0.05, "| x | 104 | 100 | 300 |\n"},
		"worse by more":   {only(106, 100, 300), lowerIsBetter, 0.05, "| x | 106 ▼ | 100 | 300 |\n"},
		"worse than none": {only(1, 0, 0), lowerIsBetter, 0, "| x | 1 ▼ | 0 | 0 |\n"},
		"never":           {only(never, 1, 2), lowerIsBetter, 0.05, "| x | never ▼ | 1 | 2 |\n"},
		"all never":       {only(never, never, never), lowerIsBetter, 0.05, "| x | never | never | never |\n"},
		"less":            {only(90, 100, 50), higherIsBetter, 0.05, "| x | 90 ▼ | 100 | 50 |\n"},
		"more":            {only(101, 100, 50), higherIsBetter, 0.05, "| x | 101 | 100 | 50 |\n"},
		"neither":         {only(9, 1, 1), neitherIsBetter, 0, "| x | 9 | 1 | 1 |\n"},
		"not measured":    {only(none, 1, 1), lowerIsBetter, 0, "| x | – | 1 | 1 |\n"},
		"alone":           {only(1, none, none), lowerIsBetter, 0, "| x | 1 | – | – |\n"},
	} {
		table := table{"fault", []string{"load_balance", "A", "B"}, []row{{"x", tc.figures}}}
		if got := table.markdown(table.losses(tc.better, tc.tolerance)); got != head+tc.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, head+tc.want)
		}
	}
}

func TestClearLosses(t *testing.T) {
	of := func(values ...float64) spread { return spreadOf(values) }
	for name, tc := range map[string]struct {
		ours, other spread
		better      order
		want        string
	}{
		"every time":   {of(4, 5, 6), of(1, 2, 3), lowerIsBetter, "`load_balance` in 1, of which in 1 every repetition was worse than any of the best."},
		"mostly":       {of(3, 5, 6), of(1, 2, 3), lowerIsBetter, "`load_balance` in 1, of which in 0 every repetition was worse than any of the best."},
		"less, always": {of(1, 2, 3), of(4, 5, 6), higherIsBetter, "`load_balance` in 1, of which in 1 every repetition was worse than any of the best."},
		"better":       {of(1, 2, 3), of(4, 5, 6), lowerIsBetter, ""},
	} {
		table := table{"fault", []string{"load_balance", "A"}, []row{{"x", []spread{tc.ours, tc.other}}}}
		if got := byPeer(table.losses(tc.better, 0)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestRatio(t *testing.T) {
	cell := Cell{Protocol: "HTTP/2", Connections: 64, Size: 1000, Up: 4}
	slice := func(peer string, round int, cpu float64, errors int) Slice {
		return Slice{Cell: cell, Peer: peer, Round: round, Requests: 100, Errors: errors, CPU: cpu}
	}
	speed := Speed{Slices: []Slice{
		slice("ours", 0, 10, 0), slice("stock", 0, 20, 0),
		slice("ours", 1, 30, 1), slice("stock", 1, 20, 0),
		slice("ours", 2, 20, 0), slice("stock", 2, 40, 0),
		slice("ours", 3, 1, 2), slice("stock", 3, 1000, 50), // failures are quick
		slice("ours", 4, 5000, 0), // alone
	}}
	if got := speed.ratio(speedFigures[0], cell, Pair{"ours", "stock"}).String(); got != "1 (0.500–1.50)" {
		t.Errorf("ratio %s", got)
	}
}
