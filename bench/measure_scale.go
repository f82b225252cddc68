//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// scalePeers are those with many upstreams.
var scalePeers = []peer.Peer{peer.Ours, peer.StockChecks}

// scaleSizes are the numbers of upstreams, the lowest first.
var scaleSizes = []int{10, 100, 1000, 10_000}

func scalePeer(name string) peer.Peer {
	return scalePeers[slices.IndexFunc(scalePeers, func(p peer.Peer) bool { return p.Name == name })]
}

// measureScale gives every peer more and more upstreams.
func measureScale(o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	begin := time.Now()
	took, err := measurePicks()
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
	err = sandbox.Run("scale", jobs, 1, func(job scaleJob, result scaled) {
		row := result.ScaleRow
		if least, ok := fewest[job.Peer]; ok {
			row.HeapPerUpstream = (result.Heap - least.Heap) / float64(job.Upstreams-least.Upstreams)
		} else {
			fewest[job.Peer] = result
		}
		row.PickNs = took[benchmark{job.Peer == peer.Ours.Name, "pick", job.Upstreams}]
		row.SwapUs = took[benchmark{job.Peer == peer.Ours.Name, "swap", job.Upstreams}] / 1000
		data.Rows = append(data.Rows, row)
		fmt.Fprintf(os.Stderr, "%-40s heap %.0f B each, RSS %.0f MB, CPU %.1f %% (plain exchanges %.1f %%), most to mean %.1f, pick %.0f ns, swap %.0f us, reload %.0f ms\n",
			job, row.HeapPerUpstream, row.RSS, row.CPU, row.ExchangeCPU, row.MaxToMean, row.PickNs, row.SwapUs, row.ReloadMs)
	})
	if err != nil {
		return err
	}
	data.Took = time.Since(begin).Round(time.Second).String()
	if err := report.Save(o.folder, "scale", data); err != nil {
		return err
	}
	return report.Write(o.folder)
}
