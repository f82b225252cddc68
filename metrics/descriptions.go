package metrics

import "github.com/prometheus/client_golang/prometheus"

// What there is to see. All but noUpstream have the labels pool and upstream
// first.
var (
	upstreamStatus = describe("upstream_status",
		"Whether the upstream has the status: unknown, up, down or retired.", "status")
	inRotation = describe("upstream_in_rotation",
		"Whether the upstream is eligible for new requests.")
	checks = describe("checks_total",
		"Health checks by result: passed, failed, or void if they did not count.", "result")
	checkDuration = describe("check_duration_seconds",
		"How long health checks took.")
	transitions = describe("transitions_total",
		"Changes of the upstream's status; from or to is ejected when requests had to do with it.", "from", "to")
	nextCheck = describe("next_check_timestamp_seconds",
		"When the upstream is checked next, or readmitted if it is retired. Missing if it is not.")
	requests = describe("requests_total",
		"Requests sent to the upstream, retries included, by outcome: success, error_status (from 500), failed, canceled (by the client), or rescued (retried elsewhere).", "outcome")
	retries = describe("retries_total",
		"Requests sent to the upstream that had been sent before, to another one or to this one.")
	inFlight = describe("in_flight",
		"Requests that the upstream is serving.")
	noUpstream = prometheus.NewDesc(prefix+"no_upstream_total",
		"Requests that ended unserved because no upstream of the pool could be tried.", []string{"pool"}, nil)
)

const prefix = "caddy_load_balance_"

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, append([]string{"pool", "upstream"}, labels...), nil)
}

// all are all of them.
var all = []*prometheus.Desc{
	upstreamStatus, inRotation, checks, checkDuration, transitions, nextCheck, requests, retries, inFlight, noUpstream,
}
