package healthcheck

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// dialGap is the least time between two checks asked for by dial errors.
const dialGap = 250 * time.Millisecond

// Key identifies what is known over reloads. Thresholds and delays are no
// part of it.
type Key struct {
	// Pool is the name of the pool, Address the upstream's.
	Pool, Address string
	// Check and Transport stand for what the check asks and how it travels.
	Check, Transport string
}

// anyPool returns what is left of the key without its pool.
func (k Key) anyPool() Key {
	k.Pool = ""
	return k
}

// record is what is known and scheduled about one target. Records outlive
// configs: those that use one follow it, and one of them at most drives it.
// Everything but status is guarded by the registry's lock.
type record struct {
	key   Key
	state State
	// status mirrors state.Status for readers without the lock.
	status atomic.Uint32

	// since is when the status was reached, reason why.
	since  time.Time
	reason string
	// loud says that the retirement going on, or the last one, was reported.
	loud bool
	// last is the newest result; its Time is zero if there is none.
	last Report
	// void says that the newest check had no result.
	void bool
	// delay is the current delay, next the time of the next scheduled check
	// or of the end of the retirement; zero if there is none.
	delay time.Duration
	next  time.Time

	// extraAt is when an extra check is due, zero if none is asked for.
	extraAt time.Time
	// extraLast is when the last extra check began.
	extraLast time.Time
	running   *run
	timer     *time.Timer

	followers []*Target
	driver    *Target
}

// known reports whether the record has a state worth taking over.
func (rec *record) known() bool { return rec.state.Status != Unknown }

// fork returns a copy of what rec knows under another key, to be scheduled
// by whoever drives it.
func (rec *record) fork(key Key) *record {
	forked := &record{
		key: key, state: rec.state, since: rec.since, reason: rec.reason,
		loud: rec.loud, last: rec.last, delay: rec.delay, next: rec.next,
		extraAt: rec.extraAt,
	}
	forked.status.Store(rec.status.Load())
	return forked
}

// move shows the state's status, tells the targets that follow, and remembers
// why and when. from is the status before.
func (rec *record) move(from Status, reason string, now time.Time) {
	to := rec.state.Status
	rec.status.Store(uint32(to))
	rec.reason = reason
	if from == to {
		return
	}
	rec.since = now
	for _, t := range rec.followers {
		t.count(from, to)
	}
}

// schedule plans the next check, counted from now.
func (rec *record) schedule(set Settings, now time.Time, firstPass bool) {
	delay, ok := rec.state.Delay(set)
	rec.delay = delay
	switch {
	case !ok:
		rec.next = time.Time{}
	case firstPass && set.Jitter > 0:
		rec.next = now.Add(time.Duration(rand.Float64() * float64(set.Interval)))
	default:
		rec.next = now.Add(spread(delay, set.Jitter, rand.Float64()))
	}
}

// due returns when the record wants its next check, scheduled or extra, and
// false if it wants none.
func (rec *record) due() (time.Time, bool) {
	switch {
	case rec.extraAt.IsZero():
		return rec.next, !rec.next.IsZero()
	case rec.next.IsZero() || rec.extraAt.Before(rec.next):
		return rec.extraAt, true
	}
	return rec.next, true
}

// cut ends the check under way, if any, without a result.
func (rec *record) cut() {
	if rec.running == nil {
		return
	}
	rec.running.cancel(errCut)
	if rec.running.extra {
		rec.driver.group.extras--
	}
	rec.running = nil
}

// halt stops everything that the record's driver has under way: from here on
// nothing is checked until the record is driven again. A check that was cut
// short is due at once then.
func (rec *record) halt(now time.Time) {
	rec.extraAt = time.Time{}
	if rec.running != nil {
		if rec.running.extra {
			rec.extraAt = now
		} else {
			rec.next = now
		}
		rec.cut()
	}
	if rec.timer != nil {
		rec.timer.Stop()
	}
	rec.driver = nil
}
