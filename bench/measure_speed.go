//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// measureSpeed measures all peers, several times each, started anew, and what
// goes on inside one process.
func measureSpeed(o options) error {
	if err := missing(speedPeers, "h2load"); err != nil {
		return err
	}
	var jobs []speedJob
	for repeat := range o.repeat {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
			job := speedJob{Protocol: protocol, Repeat: repeat, Only: o.only, Caddy: o.caddy}
			if job.wanted() {
				jobs = append(jobs, job)
			}
		}
	}
	begin := time.Now()
	data := report.Speed{About: report.ThisMachine(), Repeat: o.repeat, Pinned: true, Pairs: speedPairs, Peers: described(speedPeers)}
	err := sandbox.Run("speed", jobs, 1, func(job speedJob, result speedResult) error {
		data.Repeat = job.Repeat + 1
		data.Pinned = data.Pinned && result.Pinned
		data.Slices = append(data.Slices, result.Slices...)
		fmt.Fprintln(os.Stderr, job)
		for _, s := range result.Slices {
			fmt.Fprintf(os.Stderr, "  %-45s %-26s %6.0f/s, %6.1f us each, %3.0f %% busy, p50 %.2f ms, p99 %.2f ms, %d errors\n",
				s.Cell, s.Peer, s.Rate, s.CPU, s.Busy, s.P50, s.P99, s.Errors)
		}
		data.Took = time.Since(begin).Round(time.Second).String()
		return report.Save(o.folder, "speed", data) // what is measured stays, whatever comes
	})
	if err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"-bench", "^BenchmarkSelect$", "-benchtime", "300ms", "-run", "^$", module + "/upstreams"},
		{"-bench", "^BenchmarkServeHTTP$", "-run", "^TestAllocations$", module},
	} {
		found, err := goBenchmarks(append(arguments, "-count", strconv.Itoa(o.repeat))...)
		if err != nil {
			return err
		}
		data.Inside = append(data.Inside, found...)
	}
	data.Took = time.Since(begin).Round(time.Second).String()
	return report.Save(o.folder, "speed", data)
}
