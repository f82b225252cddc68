package admin

import (
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// Upstream is how the API shows one upstream of one pool. Times are in RFC
// 3339, or null.
type Upstream struct {
	// Pool is the name of the pool, Address the upstream's as configured.
	Pool    string `json:"pool"`
	Address string `json:"address"`
	// Status is unknown, up, down or retired; InRotation says whether the
	// upstream gets new requests.
	Status     string `json:"status"`
	InRotation bool   `json:"in_rotation"`
	// Operator is the operator mode: ready, drain or maint.
	Operator string `json:"operator"`
	// Weight is the upstream's share of the turns, 0 for none. Backup says
	// that it gets requests only while no other is in rotation.
	Weight int  `json:"weight"`
	Backup bool `json:"backup"`
	// Failures is the run of failed checks; at MaxFailures the upstream is
	// retired, 0 means never.
	Failures    int `json:"failures"`
	MaxFailures int `json:"max_failures"`
	// DelayMS is the current delay between two checks, in milliseconds. For
	// a retired upstream it is that to its readmission.
	DelayMS int64 `json:"delay_ms"`
	// Reason says why the last counted check failed, "unchecked" that the
	// upstream is not checked. Empty if the last one passed.
	Reason string `json:"reason"`
	// Since is when the status was reached.
	Since *time.Time `json:"since"`
	// LastCheck is the newest result.
	LastCheck *Check `json:"last_check"`
	// NextCheck is when the next check is scheduled, or when a retired
	// upstream is readmitted.
	NextCheck *time.Time `json:"next_check"`
	// RetireAt is when the upstream is retired if it goes on failing, not
	// counting the time that checks take.
	RetireAt *time.Time `json:"retire_at"`
	// EjectedUntil is how long its failed requests keep an upstream out of
	// rotation at least; a check has to pass after that.
	EjectedUntil *time.Time `json:"ejected_until"`
	// InFlight counts requests under way, Requests all attempts, Errors those
	// that got no response.
	InFlight int    `json:"in_flight"`
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
	// Explanation is there if it was asked for.
	*Explanation
}

// Check is the result of a check.
type Check struct {
	Time       *time.Time `json:"time"`
	DurationMS float64    `json:"duration_ms"`
	OK         bool       `json:"ok"`
	// StatusCode is that of the response, 0 if there was none.
	StatusCode int `json:"status_code"`
	// Error says why it failed.
	Error string `json:"error"`
}

// NewUpstream returns what is known about u as the API shows it.
func NewUpstream(u upstreams.Upstream) Upstream {
	shown := Upstream{
		Pool: u.Pool, Address: u.Address,
		Status: u.Status.String(), InRotation: u.InRotation,
		Operator: u.Mode.String(), Weight: u.Weight, Backup: u.Backup,
		Failures: u.Failures, MaxFailures: u.MaxFailures,
		DelayMS: u.Delay.Milliseconds(), Reason: u.Reason,
		Since: moment(u.Since), NextCheck: moment(u.Next), RetireAt: moment(u.RetireAt),
		EjectedUntil: moment(u.EjectedUntil),
		InFlight:     u.InFlight, Requests: u.Requests, Errors: u.Errors,
	}
	if !u.Last.Time.IsZero() {
		last := newCheck(u.Last)
		shown.LastCheck = &last
	}
	return shown
}

func newCheck(report healthcheck.Report) Check {
	check := Check{
		Time: moment(report.Time), DurationMS: float64(report.Duration.Microseconds()) / 1000,
		OK: report.OK, StatusCode: report.StatusCode, Error: report.Reason,
	}
	if report.Detail != "" {
		check.Error += ": " + report.Detail
	}
	return check
}

// moment returns t for JSON, nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Round(time.Millisecond) // also drops the monotonic clock
	return &t
}
