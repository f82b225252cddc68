package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is what series of one name have in common.
type family struct {
	desc *prometheus.Desc
	// counts says that they are counters. Otherwise they are gauges, or
	// histograms.
	counts bool
}

// What there is to see. All but noUpstream have the labels pool and upstream.
var (
	upstreamStatus = gauge("upstream_status",
		"Whether the upstream has the status: unknown, up, down or retired.", "pool", "status", "upstream")
	inRotation = gauge("upstream_in_rotation",
		"Whether the upstream is eligible for new requests.", "pool", "upstream")
	checks = counter("checks_total",
		"Health checks by result: passed, failed, or void if they did not count.", "pool", "result", "upstream")
	checkDuration = gauge("check_duration_seconds",
		"How long health checks took.", "pool", "upstream")
	transitions = counter("transitions_total",
		"Changes of the upstream's status; from or to is ejected when requests had to do with it.", "from", "pool", "to", "upstream")
	nextCheck = gauge("next_check_timestamp_seconds",
		"When the upstream is checked next, or readmitted if it is retired. Missing if it is not.", "pool", "upstream")
	requests = counter("requests_total",
		"Requests sent to the upstream, retries included, by outcome: success, error_status (from 500), failed, canceled (by the client), or rescued (retried elsewhere).", "outcome", "pool", "upstream")
	retries = counter("retries_total",
		"Requests sent to the upstream that had been sent before, to another one or to this one.", "pool", "upstream")
	inFlight = gauge("in_flight",
		"Requests that the upstream is serving.", "pool", "upstream")
	noUpstream = counter("no_upstream_total",
		"Requests that ended unserved because no upstream of the pool could be tried.", "pool")
)

// all are all of them.
var all = []*family{
	upstreamStatus, inRotation, checks, checkDuration, transitions, nextCheck, requests, retries, inFlight, noUpstream,
}

const prefix = "caddy_load_balance_"

// gauge and counter describe a family, with its labels in alphabetical order,
// in which series have to have them.
func gauge(name, help string, labels ...string) *family {
	return &family{desc: prometheus.NewDesc(prefix+name, help, labels, nil)}
}

func counter(name, help string, labels ...string) *family {
	f := gauge(name, help, labels...)
	f.counts = true
	return f
}
