//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
)

func TestInProcess(t *testing.T) {
	found, err := report.ParseBenchmarks(strings.NewReader(`goos: linux
BenchmarkSelect/upstreams=10/all_up/stock-2         	 1000000	       135.9 ns/op	       0 B/op	       0 allocs/op
BenchmarkSelect/upstreams=10/all_up/ours         	20000000	        11 ns/op	       0 B/op	       0 allocs/op
BenchmarkSelect/upstreams=10/one_up/ours-2         	20000000	        12 ns/op
BenchmarkSwap/upstreams=10000-2         	     500	    310000 ns/op
PASS
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		peer       peer.Peer
		upstreams  int
		pick, swap float64
	}{
		{peer.StockChecks, 10, 135.9, 0},
		{peer.Ours, 10, 11, 0},
		{peer.Ours, 10_000, 0, 310},
		{peer.StockChecks, 10_000, 0, 0},
	} {
		row := report.ScaleRow{Peer: tc.peer.Name, Upstreams: tc.upstreams}
		inProcess(&row, found)
		if row.PickNs != tc.pick || row.SwapUs != tc.swap {
			t.Errorf("%s, %d: pick %v ns, swap %v us, want %v and %v",
				tc.peer.Name, tc.upstreams, row.PickNs, row.SwapUs, tc.pick, tc.swap)
		}
	}
}
