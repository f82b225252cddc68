//go:build linux

package main

import (
	"slices"
	"sync"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

const (
	// detectGap is how long no request goes to a backend that was found out.
	detectGap = 250 * time.Millisecond
	// shareWindow is the time in which shares are counted.
	shareWindow = 500 * time.Millisecond
	// fairShare is the part of an equal share that counts as a full one.
	fairShare = 2. / 3
)

// judge sums a scenario up.
func judge(what scenario, bad [][]interval, gets, posts []load.Sample, sent []map[uint16][]time.Duration) report.Outcome {
	var first, last time.Duration = 1 << 60, 0
	for _, times := range bad {
		for _, b := range times {
			first, last = min(first, b.from), max(last, b.to)
		}
	}
	o := report.Outcome{Get: sum(gets, first), Post: sum(posts, first), Detect: -1, FullShare: -1}
	var hits []time.Duration // after the first fault, of the backend that it hit
	for i, times := range bad {
		for k, b := range times {
			for _, at := range sent[i][trafficPort] {
				if b.from <= at && at < b.to {
					o.BadRequests++
					if k == 0 && b.from == first {
						hits = append(hits, at-first)
					}
				}
			}
			for _, at := range sent[i][healthPort] {
				if what.dead && b.from <= at && at < b.to {
					o.Probes++
				}
			}
		}
	}
	if last == 0 { // nothing went wrong
		return o
	}
	o.Detect = milliseconds(stats.Stint(hits, detectGap))
	seen := new(shares)
	for _, s := range slices.Concat(gets, posts) {
		seen.add(s)
	}
	if at := seen.equalSince(last); at > 0 {
		o.FullShare = milliseconds(at - last)
	}
	return o
}

// sum sums up the requests that were due from a moment on.
func sum(samples []load.Sample, from time.Duration) report.Requests {
	r := report.Requests{Kinds: make(map[string]int)}
	var took []time.Duration
	for _, s := range samples {
		if s.Error != "" {
			r.Errors++
			r.Kinds[s.Error]++
		}
		if s.Redialed {
			r.Redialed++
		}
		r.Sent++
		if s.Start >= from || from == 1<<60 {
			took = append(took, s.Took)
		}
	}
	r.P50 = milliseconds(stats.Percentile(took, 50))
	r.P99 = milliseconds(stats.Percentile(took, 99))
	r.Max = milliseconds(stats.Percentile(took, 100))
	return r
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// shares are the answers of each backend.
type shares struct {
	mutex   sync.Mutex
	answers []answer
}

// answer is when a backend answered a request, which was due at due.
type answer struct {
	due, at time.Duration
	backend string
}

func (s *shares) add(sample load.Sample) {
	if sample.Backend == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers = append(s.answers, answer{sample.Start, sample.Start + sample.Took, sample.Backend})
}

// equalSince returns the first moment, not before from, from which on every
// backend gave a fair share of the answers of a window, and zero if there was
// none so far. Requests from before do not count: those that have waited for
// a backend all the time say nothing about where a peer sends them now.
func (s *shares) equalSince(from time.Duration) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var answers []answer
	for _, a := range s.answers {
		if a.due >= from {
			answers = append(answers, a)
		}
	}
	slices.SortFunc(answers, func(a, b answer) int { return int(a.at - b.at) })
	end := 0
	count := make(map[string]int)
	for begin, start := range answers {
		for end < len(answers) && answers[end].at < start.at+shareWindow {
			count[answers[end].backend]++
			end++
		}
		if end == len(answers) {
			return 0 // the window is not over
		}
		if len(count) == backendCount && even(count, end-begin) {
			return start.at
		}
		count[start.backend]--
	}
	return 0
}

// even reports whether all have a fair share of a total.
func even(count map[string]int, total int) bool {
	for _, n := range count {
		if float64(n) < fairShare*float64(total)/backendCount {
			return false
		}
	}
	return true
}
