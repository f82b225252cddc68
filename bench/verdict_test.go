//go:build linux

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
)

const ms = time.Millisecond

// answers are one answer every 10 ms, from the named backends in turn.
func answers(from, to time.Duration, backends ...string) []load.Sample {
	var all []load.Sample
	for i, at := 0, from; at < to; i, at = i+1, at+10*ms {
		all = append(all, load.Sample{Start: at - ms, Took: ms, Backend: backends[i%len(backends)]})
	}
	return all
}

func TestEqualSince(t *testing.T) {
	for name, tc := range map[string]struct {
		samples []load.Sample
		want    time.Duration
	}{
		"nothing":  {nil, 0},
		"not long": {answers(time.Second, 1400*ms, "a", "b", "c"), 0},
		"at once":  {answers(time.Second+ms, 3*time.Second, "a", "b", "c"), time.Second + ms},
		"only those that have waited for it": {append(answers(time.Second+ms, 3*time.Second, "a", "b"), slices.Repeat(
			[]load.Sample{{Start: 900 * ms, Took: 300 * ms, Backend: "c"}}, 100)...), 0},
		"never":        {answers(time.Second, 3*time.Second, "a", "b"), 0},
		"before":       {answers(0, time.Second, "a", "b", "c"), 0},
		"not as often": {answers(time.Second, 3*time.Second, "a", "b", "a", "b", "c"), 0},
	} {
		s := new(shares)
		for _, sample := range tc.samples {
			s.add(sample)
		}
		if got := s.equalSince(time.Second); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	s := new(shares)
	for _, sample := range append(answers(time.Second, 2*time.Second, "a", "b"), answers(2*time.Second, 4*time.Second, "a", "b", "c")...) {
		s.add(sample)
	}
	// two thirds of a third of 50 answers, 12 of the first window
	if got := s.equalSince(time.Second); got < 1800*ms || got > 1900*ms {
		t.Errorf("a backend that comes late: %v", got)
	}
}

func TestJudge(t *testing.T) {
	bad := [][]interval{{{from: time.Second, to: 2 * time.Second}, {from: 3 * time.Second, to: 4 * time.Second}}, nil, nil}
	gets := answers(500*ms, 6*time.Second, "a", "b", "c")
	gets[60].Error, gets[60].Took = "status 502", 900*ms
	gets[61].Error = "status 502"
	gets[0].Took = 5 * time.Second // before the fault
	sent := []map[uint16][]time.Duration{
		{
			trafficPort: {999 * ms, 1001 * ms, 1020 * ms, 1500 * ms, 2500 * ms, 3001 * ms},
			healthPort:  {900 * ms, 1100 * ms, 2100 * ms, 3999 * ms},
		},
		{trafficPort: {1600 * ms}, healthPort: {1600 * ms}},
		nil,
	}
	o := judge(scenario{dead: true}, bad, gets, nil, sent)
	if o.Get.Errors != 2 || o.Get.Kinds["status 502"] != 2 || o.Get.Max != 900 || o.Get.P50 != 1 {
		t.Errorf("GET: %+v", o.Get)
	}
	if o.BadRequests != 4 || o.Probes != 2 || o.Detect != 20 {
		t.Errorf("%d requests to a bad one, %d probes, detected after %v ms", o.BadRequests, o.Probes, o.Detect)
	}
	if o.FullShare < 0 || o.FullShare > 10 {
		t.Errorf("full share after %v ms", o.FullShare)
	}
	if o := judge(scenario{}, bad, gets, nil, sent); o.Probes != 0 {
		t.Errorf("%d probes of one that is not dead", o.Probes)
	}
	if o := judge(scenario{}, make([][]interval, 3), gets, nil, sent); o.Detect != -1 || o.FullShare != -1 || o.Get.Max != 5000 {
		t.Errorf("without a fault: %+v", o)
	}
}
