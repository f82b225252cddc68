package healthcheck

import (
	"context"
	"errors"
	"time"
)

// Probe performs one check. It returns when the check has a result, at the
// latest soon after ctx is done. It may be called from many goroutines, but
// never twice at a time for one target.
type Probe func(ctx context.Context) Report

// Report is the result of one check.
type Report struct {
	// Time is when the check started.
	Time time.Time
	// Duration is how long it took.
	Duration time.Duration
	// OK says whether it passed.
	OK bool
	// Answered says that the backend gave an answer of its own, be it a bad
	// one: an HTTP response or a gRPC status. A connection alone is none, nor
	// is an answer that broke off.
	Answered bool
	// StatusCode is that of the HTTP response, or 0 if there was none.
	StatusCode int
	// Reason says in a few words why it failed: "connection refused",
	// "timeout", "status 503". Empty if it passed.
	Reason string
	// Detail is the error behind the reason, for operators only.
	Detail string
	// Void marks a check that says nothing about the target: the machine
	// had no file descriptors left for it.
	Void bool
}

// TimedOut reports whether the check failed because something took too long:
// connecting, a TLS handshake, or the whole of it.
func (r Report) TimedOut() bool { return r.Reason == timedOut }

// errCut is the cancel cause of checks that a reload or a stop cuts short.
var errCut = errors.New("the check was cut short by a reload or a stop")

// run is a check under way.
type run struct {
	cancel context.CancelCauseFunc
	// extra marks a check that was asked for outside the schedule.
	extra bool
	// first marks the first check of a target after the config has started.
	first bool
	// began is when it began or, if a reload cut one short and it is that one
	// anew, when that one did.
	began time.Time
}
