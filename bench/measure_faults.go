//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// measureFaults plays every scenario with every peer in turn, without and with
// reloads meanwhile, several times.
func measureFaults(o options) error {
	if err := missing(peers, "nft"); err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	var jobs []faultJob
	for range o.repeat {
		for _, reloads := range []bool{false, true} {
			for _, s := range scenarios {
				for _, p := range append(slices.Clone(peers), s.others...) {
					job := faultJob{Scenario: s.Name, Peer: p.Name, Reloads: reloads, Caddy: o.caddy}
					if only.MatchString(job.String()) && (!reloads || !s.still) {
						jobs = append(jobs, job)
					}
				}
			}
		}
	}
	begin := time.Now()
	data := report.Faults{About: report.ThisMachine(), Lanes: o.lanes, Repeat: o.repeat, Peers: described(peers)}
	for _, s := range scenarios {
		data.Scenarios = append(data.Scenarios, report.Scenario{Name: s.Name, What: s.What})
	}
	var earlier report.Faults
	if o.only != "" && report.Load(o.folder, "faults", &earlier) == nil && earlier.Lanes == o.lanes && earlier.Repeat == o.repeat {
		data.Took, data.Anew = earlier.Took, slices.Concat(earlier.Anew, []string{o.only})
		data.Runs = slices.DeleteFunc(earlier.Runs, func(r report.FaultRun) bool {
			return only.MatchString(faultJob{Scenario: r.Scenario, Peer: r.Peer, Reloads: r.Reloads}.String())
		})
	}
	done := 0
	return sandbox.Run("faults", jobs, o.lanes, func(job faultJob, result report.Outcome) error {
		done++
		data.Runs = append(data.Runs, report.FaultRun{
			Scenario: job.Scenario, Peer: job.Peer, Reloads: job.Reloads, Outcome: result,
		})
		fmt.Fprintf(os.Stderr, "%3d/%d %-60s GET %d errors, max %.0f ms; POST %d errors; %d bad, %d probes, detected %.0f ms, full share %.0f ms\n",
			done, len(jobs), job, result.Get.Errors, result.Get.Max, result.Post.Errors,
			result.BadRequests, result.Probes, result.Detect, result.FullShare)
		for method, seen := range map[string]report.Requests{"GET": result.Get, "POST": result.Post} {
			for _, kind := range slices.Sorted(maps.Keys(seen.Kinds)) {
				fmt.Fprintf(os.Stderr, "\t\t%s %d: %s\n", method, seen.Kinds[kind], kind)
			}
		}
		if data.Anew == nil {
			data.Took = time.Since(begin).Round(time.Second).String()
		}
		return report.Save(o.folder, "faults", data) // what is measured stays, whatever comes
	})
}

// described is what the report says of peers.
func described(peers []peer.Peer) []report.Peer {
	var all []report.Peer
	for _, p := range peers {
		all = append(all, report.Peer{Name: p.Name, Note: p.Note, Config: p.Config()})
	}
	return all
}

// String is the job in words.
func (j faultJob) String() string {
	if j.Reloads {
		return j.Scenario + " + reloads: " + j.Peer
	}
	return j.Scenario + ": " + j.Peer
}
