package report

import (
	"strings"
	"testing"
)

// Ratios are those of slices of the same round; what only one of a pair has, or
// what failed, does not count.
func TestRatios(t *testing.T) {
	cell := Cell{Protocol: "HTTP/1.1", Connections: 64, Size: 1000, Up: 4}
	s := Speed{Pairs: []Pair{{"ours", "stock"}}}
	for _, slice := range []struct {
		peer  string
		round int
		cpu   float64
		fails int
	}{
		{"ours", 0, 100, 0},
		{"stock", 0, 200, 0},
		{"ours", 1, 300, 0},
		{"stock", 1, 300, 0},
		{"ours", 2, 330, 0},
		{"stock", 2, 300, 0},
		{"ours", 3, 1, 0},    // alone
		{"stock", 4, 1, 0},   // alone
		{"ours", 5, 1, 500},  // of 1000
		{"stock", 5, 100, 0}, // alone so
	} {
		s.Slices = append(s.Slices, Slice{
			Cell: cell, Peer: slice.peer, Round: slice.round, Requests: 1000, Errors: slice.fails, CPU: slice.cpu, Rate: 1000 / slice.cpu,
		})
	}
	if got := s.ratio(speedFigures[0], cell, s.Pairs[0]).String(); got != "1 (0.500–1.10)" {
		t.Errorf("ratio of processor times: %s", got)
	}
	const want = "the median of the 3 ratios of slices that followed one another: processor time of a request 1 (half of them from 0.500 to 1.10), requests a second 1 (half of them from 0.909 to 2)"
	if got := s.overall(s.Pairs[0]); !strings.Contains(got, want) {
		t.Errorf("overall: %s", got)
	}
	if got := s.overall(Pair{"ours", "nobody"}); got != "" {
		t.Errorf("overall of what was not measured: %s", got)
	}
}
