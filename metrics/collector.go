package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// collector reads the pools of the running config.
type collector struct{}

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range all {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{ch: ch, pools: make(map[string]bool), pairs: make(map[pair]bool)}
	for _, pool := range upstreams.Pools() {
		s.pool(pool)
	}
}

// statuses are the values of the label status.
var statuses = []healthcheck.Status{healthcheck.Unknown, healthcheck.Up, healthcheck.Down, healthcheck.Retired}

// usual are the transitions that are shown from the start, so that the first
// one of a kind is seen as an increase. Others are shown once they happened.
var usual = []healthcheck.Transition{
	{From: "unknown", To: "up"},
	{From: "unknown", To: "down"},
	{From: "up", To: "down"},
	{From: "down", To: "up"},
	{From: "down", To: "retired"},
	{From: "retired", To: "down"},
	{From: "up", To: "ejected"},
	{From: "ejected", To: "up"},
}

type pair struct{ pool, upstream string }

// scrape is one look at all pools. Names that are the same once they are made
// valid are seen once: a doubled series would spoil the whole answer.
type scrape struct {
	ch    chan<- prometheus.Metric
	pools map[string]bool
	pairs map[pair]bool
}

func (s *scrape) pool(p *upstreams.Pool) {
	name := valid(p.Name())
	if !s.pools[name] {
		s.pools[name] = true
		s.send(noUpstream, prometheus.CounterValue, float64(p.Unserved()), name)
	}
	p.Each(func(u upstreams.Upstream) bool {
		at := pair{name, valid(u.Address)}
		if !s.pairs[at] {
			s.pairs[at] = true
			s.traffic(at, u)
			s.health(at, u)
		}
		return true
	})
}

// traffic sends what requests have to do with.
func (s *scrape) traffic(at pair, u upstreams.Upstream) {
	s.send(inRotation, prometheus.GaugeValue, one(u.InRotation), at.pool, at.upstream)
	s.send(inFlight, prometheus.GaugeValue, float64(u.InFlight), at.pool, at.upstream)
	s.send(retries, prometheus.CounterValue, float64(u.Retries), at.pool, at.upstream)
	for how, n := range u.Outcomes {
		s.send(requests, prometheus.CounterValue, float64(n), at.pool, at.upstream, upstreams.Outcome(how).String())
	}
}

// health sends what checks have to do with.
func (s *scrape) health(at pair, u upstreams.Upstream) {
	for _, status := range statuses {
		s.send(upstreamStatus, prometheus.GaugeValue, one(u.Status == status), at.pool, at.upstream, status.String())
	}
	tally := u.Target.Tally()
	for _, way := range usual {
		s.send(transitions, prometheus.CounterValue, float64(tally.Transitions[way]), at.pool, at.upstream, way.From, way.To)
		delete(tally.Transitions, way)
	}
	for way, n := range tally.Transitions {
		s.send(transitions, prometheus.CounterValue, float64(n), at.pool, at.upstream, way.From, way.To)
	}
	if !u.Checked {
		return
	}
	if !u.Next.IsZero() {
		s.send(nextCheck, prometheus.GaugeValue, float64(u.Next.UnixMilli())/1000, at.pool, at.upstream)
	}
	s.send(checks, prometheus.CounterValue, float64(tally.Passed), at.pool, at.upstream, "passed")
	s.send(checks, prometheus.CounterValue, float64(tally.Failed), at.pool, at.upstream, "failed")
	s.send(checks, prometheus.CounterValue, float64(tally.Void), at.pool, at.upstream, "void")
	s.durations(at, tally)
}

// durations sends the histogram of check durations.
func (s *scrape) durations(at pair, tally healthcheck.Tally) {
	buckets := make(map[float64]uint64, len(healthcheck.DurationBounds))
	sum := uint64(0)
	for i, bound := range healthcheck.DurationBounds {
		sum += tally.Durations[i]
		buckets[bound.Seconds()] = sum
	}
	if m, err := prometheus.NewConstHistogram(checkDuration, tally.Checks(), tally.Took.Seconds(), buckets, at.pool, at.upstream); err == nil {
		s.ch <- m
	}
}

// send sends a value. An error is not possible: the labels are as described,
// and valid.
func (s *scrape) send(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	if m, err := prometheus.NewConstMetric(desc, kind, value, labels...); err == nil {
		s.ch <- m
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// valid returns a name as a label may have it. Prometheus refuses others.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// Interface guard
var _ prometheus.Collector = collector{}
