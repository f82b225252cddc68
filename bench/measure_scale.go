//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// scalePeers are those with many upstreams.
var scalePeers = []peer.Peer{peer.Ours, peer.StockChecks}

// scaleSizes are the numbers of upstreams, the lowest first.
var scaleSizes = []int{10, 100, 1000, 10_000}

// measureScale gives every peer more and more upstreams.
func measureScale(o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	begin := time.Now()
	picks, err := goBenchmarks("-run", "^$", "-benchtime", "200ms",
		"-bench", "^BenchmarkSelect$/^upstreams=[0-9]+$/^all_up$|^BenchmarkSwap$", module+"/upstreams")
	if err != nil {
		return err
	}
	var jobs []scaleJob
	for _, n := range scaleSizes {
		for _, p := range scalePeers {
			job := scaleJob{Caddy: o.caddy, Peer: p.Name, Upstreams: n, Rounds: o.rounds}
			if only.MatchString(job.String()) {
				jobs = append(jobs, job)
			}
		}
	}
	data := report.Scale{About: report.ThisMachine()}
	fewest := make(map[string]scaled)
	return sandbox.Run("scale", jobs, 1, func(job scaleJob, result scaled) error {
		row := result.ScaleRow
		if least, ok := fewest[job.Peer]; ok {
			row.HeapPerUpstream = (result.Heap - least.Heap) / float64(job.Upstreams-least.Upstreams)
		} else {
			fewest[job.Peer] = result
		}
		inProcess(&row, picks)
		data.Rows = append(data.Rows, row)
		fmt.Fprintf(os.Stderr, "%-40s heap %.0f B each, RSS %.0f MB, CPU %.1f %% (plain exchanges %.1f %%), most to mean %.1f, pick %.0f ns, swap %.0f us, reload %.0f ms\n",
			job, row.HeapPerUpstream, row.RSS, row.CPU, row.ExchangeCPU, row.MaxToMean, row.PickNs, row.SwapUs, row.ReloadMs)
		data.Took = time.Since(begin).Round(time.Second).String()
		return report.Save(o.folder, "scale", data) // what is measured stays, whatever comes
	})
}

// inProcess adds what Go's benchmarks say about a row.
func inProcess(row *report.ScaleRow, found []report.Benchmark) {
	who := "stock"
	if row.Peer == peer.Ours.Name {
		who = "ours"
		row.SwapUs = nanoseconds(found, fmt.Sprintf("BenchmarkSwap/upstreams=%d", row.Upstreams)) / 1000
	}
	row.PickNs = nanoseconds(found, fmt.Sprintf("BenchmarkSelect/upstreams=%d/all_up/%s", row.Upstreams, who))
}
