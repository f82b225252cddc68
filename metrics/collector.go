package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// poolCollector shows what pools have counted. It stands for upstreamCollector
// in the registry, too, and describes its series.
type poolCollector struct{}

// Describe implements prometheus.Collector.
func (poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range all {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (poolCollector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{ch}
	seen := make(map[string]bool)
	for _, p := range upstreams.Pools() {
		if name := valid(p.Name()); !seen[name] {
			seen[name] = true
			s.send(noUpstream, float64(p.Unserved()), label("pool", name))
		}
	}
}

// upstreamCollector shows what is known about upstreams. It describes nothing
// itself, or the registry would hold every series against the description, which
// takes longer than all the rest.
type upstreamCollector struct{}

// Describe implements prometheus.Collector.
func (upstreamCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. It goes from series to series and
// not from upstream to upstream, because the registry puts them in that order,
// which takes long if they come in another.
func (upstreamCollector) Collect(ch chan<- prometheus.Metric) {
	s, rows := scrape{ch}, rows()
	for status, name := range statuses {
		s.each(rows, upstreamStatus, func(r *row) (float64, []*dto.LabelPair) {
			return one(r.known.Status == healthcheck.Status(status)), []*dto.LabelPair{r.pool, name, r.upstream}
		})
	}
	s.each(rows, inRotation, func(r *row) (float64, []*dto.LabelPair) { return one(r.known.InRotation), r.plain })
	s.each(rows, inFlight, func(r *row) (float64, []*dto.LabelPair) { return float64(r.known.InFlight), r.plain })
	s.each(rows, retries, func(r *row) (float64, []*dto.LabelPair) { return float64(r.known.Retries), r.plain })
	for how, name := range outcomes {
		s.each(rows, requests, func(r *row) (float64, []*dto.LabelPair) {
			return float64(r.known.Outcomes[how]), []*dto.LabelPair{name, r.pool, r.upstream}
		})
	}
	s.transitions(rows)
	s.checks(slices.DeleteFunc(rows, func(r row) bool { return !r.known.Checked }))
}

// transitions sends how often statuses have changed.
func (s scrape) transitions(rows []row) {
	for _, way := range usual {
		from, to := label("from", way.From), label("to", way.To)
		s.each(rows, transitions, func(r *row) (float64, []*dto.LabelPair) {
			return float64(r.tally.Moved(way)), []*dto.LabelPair{from, r.pool, to, r.upstream}
		})
	}
	for i := range rows {
		for _, t := range rows[i].tally.Transitions {
			if !slices.Contains(usual, t.Transition) {
				s.send(transitions, float64(t.Count), label("from", t.From), rows[i].pool, label("to", t.To), rows[i].upstream)
			}
		}
	}
}

// checks sends what checks have to do with, of upstreams that are checked.
func (s scrape) checks(rows []row) {
	for _, result := range []struct {
		name  *dto.LabelPair
		count func(*healthcheck.Tally) uint64
	}{
		{label("result", "failed"), func(t *healthcheck.Tally) uint64 { return t.Failed }},
		{label("result", "passed"), func(t *healthcheck.Tally) uint64 { return t.Passed }},
		{label("result", "void"), func(t *healthcheck.Tally) uint64 { return t.Void }},
	} {
		s.each(rows, checks, func(r *row) (float64, []*dto.LabelPair) {
			return float64(result.count(&r.tally)), []*dto.LabelPair{r.pool, result.name, r.upstream}
		})
	}
	for i := range rows {
		r := &rows[i]
		if !r.known.Next.IsZero() {
			s.send(nextCheck, float64(r.known.Next.UnixMilli())/1000, r.plain...)
		}
		s.ch <- &histogram{checkDuration, r.plain, &r.tally}
	}
}

// usual are the transitions that are shown from the start, so that the first
// one of a kind is seen as an increase. Others are shown once they happened.
var usual = []healthcheck.Transition{
	{From: "down", To: "retired"},
	{From: "down", To: "up"},
	{From: "ejected", To: "up"},
	{From: "retired", To: "down"},
	{From: "unknown", To: "down"},
	{From: "unknown", To: "up"},
	{From: "up", To: "down"},
	{From: "up", To: "ejected"},
}

// statuses and outcomes are the values of the labels of that kind.
var (
	statuses = []*dto.LabelPair{
		healthcheck.Unknown: label("status", healthcheck.Unknown.String()),
		healthcheck.Up:      label("status", healthcheck.Up.String()),
		healthcheck.Down:    label("status", healthcheck.Down.String()),
		healthcheck.Retired: label("status", healthcheck.Retired.String()),
	}
	outcomes = []*dto.LabelPair{
		upstreams.Success:     label("outcome", upstreams.Success.String()),
		upstreams.ErrorStatus: label("outcome", upstreams.ErrorStatus.String()),
		upstreams.Failed:      label("outcome", upstreams.Failed.String()),
		upstreams.Canceled:    label("outcome", upstreams.Canceled.String()),
		upstreams.Rescued:     label("outcome", upstreams.Rescued.String()),
	}
)

// row is one upstream of one pool, and its labels.
type row struct {
	known          upstreams.Upstream
	tally          healthcheck.Tally
	pool, upstream *dto.LabelPair
	plain          []*dto.LabelPair // both
}

// rows returns all upstreams, in order of their labels. Names that are the same
// once they are made valid are seen once: a doubled series would spoil the
// whole answer.
func rows() []row {
	type pair struct{ pool, upstream string }
	var (
		list []row
		seen = make(map[pair]bool)
	)
	for _, p := range upstreams.Pools() {
		pool := label("pool", valid(p.Name()))
		p.Each(func(u upstreams.Upstream) bool {
			at := pair{pool.GetValue(), valid(u.Address)}
			if !seen[at] {
				seen[at] = true
				upstream := label("upstream", at.upstream)
				list = append(list, row{u, u.Target.Tally(), pool, upstream, []*dto.LabelPair{pool, upstream}})
			}
			return true
		})
	}
	slices.SortFunc(list, func(a, b row) int {
		return cmp.Or(
			strings.Compare(a.pool.GetValue(), b.pool.GetValue()),
			strings.Compare(a.upstream.GetValue(), b.upstream.GetValue()))
	})
	return list
}

// scrape is one look at all pools.
type scrape struct{ ch chan<- prometheus.Metric }

// each sends a series of every row.
func (s scrape) each(rows []row, of *family, what func(*row) (float64, []*dto.LabelPair)) {
	for i := range rows {
		value, labels := what(&rows[i])
		s.send(of, value, labels...)
	}
}

// send sends a series. Its labels are in alphabetical order.
func (s scrape) send(of *family, value float64, labels ...*dto.LabelPair) {
	s.ch <- &series{of, labels, value}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// valid returns a name as a label may have it. Prometheus refuses others.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// Interface guards
var (
	_ prometheus.Collector = poolCollector{}
	_ prometheus.Collector = upstreamCollector{}
)
