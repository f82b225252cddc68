//go:build linux

package main

import (
	"maps"
	"testing"
)

func TestParsePicks(t *testing.T) {
	got := parsePicks([]byte(`goos: linux
BenchmarkSelect/upstreams=10/all_up/stock-2         	 1000000	       135.9 ns/op	       0 B/op	       0 allocs/op
BenchmarkSelect/upstreams=10/all_up/ours         	20000000	        11 ns/op	       0 B/op	       0 allocs/op
BenchmarkSelect/upstreams=10/one_up/ours-2         	20000000	        12 ns/op
BenchmarkSwap/upstreams=10000-2         	     500	    310000 ns/op
PASS
`))
	want := map[benchmark]float64{
		{false, "pick", 10}:    135.9,
		{true, "pick", 10}:     11,
		{true, "swap", 10_000}: 310_000,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
