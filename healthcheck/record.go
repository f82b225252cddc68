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

// place returns what is left of the key without check and transport.
func (k Key) place() Key {
	k.Check, k.Transport = "", ""
	return k
}

// record is what is known and scheduled about one target. Records outlive
// configs: those that use one follow it, and one of them at most drives it.
// Everything but what is atomic is guarded by the registry's lock.
type record struct {
	key      Key
	state    State
	ejection ejection
	operator operator
	// status, mode, out, trial and serial mirror these for readers without
	// the lock. trial is the serial number of an ejection that waits for a
	// trial request, else 0.
	status atomic.Uint32
	mode   atomic.Uint32
	out    atomic.Bool
	trial  atomic.Uint64
	serial atomic.Uint64
	// in says that the target is in rotation, as far as its tier goes into
	// rotation at all, loud that the retirement going on, or the last one, was
	// reported, void that the newest check had no result, doubted that it was
	// not counted for the benefit of the doubt, unchecked that the target has
	// no checks.
	in, loud, void, doubted, unchecked bool
	// returns says that the target has been in maintenance, and comes back
	// with its next first result.
	returns bool

	// since is when the status was reached, reason why.
	since  time.Time
	reason string
	// back is when the target came back into rotation, nil if it never was out
	// of it. It may be read without the lock.
	back atomic.Pointer[time.Time]
	// last is the newest result, the zero value if there is none.
	last    result
	history recent
	// tally goes with pool and address: records that share these share it.
	tally *Tally
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
	// unfinished is the check that a reload cut short, nil if none is.
	unfinished *unfinished

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
		loud: rec.loud, last: rec.last, history: rec.history.clone(), delay: rec.delay, next: rec.next,
		extraAt: rec.extraAt, unchecked: rec.unchecked, returns: rec.returns,
	}
	if key.Pool == rec.key.Pool {
		forked.ejection, forked.operator, forked.tally = rec.ejection, rec.operator, rec.tally
	} else {
		forked.tally = new(Tally)
	}
	forked.back.Store(rec.back.Load())
	forked.mirror()
	return forked
}

// mirror shows state, ejection and mode to readers without the lock, and reports
// whether they see a change.
func (rec *record) mirror() bool {
	trial := uint64(0)
	if rec.ejection.out && !rec.ejection.held && rec.unchecked && rec.operator.mode == Ready {
		trial = rec.ejection.serial
	}
	changed := rec.status.Swap(uint32(rec.state.Status)) != uint32(rec.state.Status)
	changed = rec.mode.Swap(uint32(rec.operator.mode)) != uint32(rec.operator.mode) || changed
	changed = rec.out.Swap(rec.ejection.out) != rec.ejection.out || changed
	changed = rec.trial.Swap(trial) != trial || changed
	rec.serial.Store(rec.ejection.serial)
	rec.in = rec.state.Status == Up && !rec.ejection.out && rec.operator.mode == Ready
	return changed
}

// move shows the state, tells the targets that follow, and remembers why and
// when. from is the status before.
func (rec *record) move(from Status, reason string, now time.Time) {
	rec.reason = reason
	if from != rec.state.Status {
		rec.since = now
		rec.tally.moved(from.String(), rec.state.Status.String())
	}
	rec.show(from != Unknown || rec.returns, now)
}

// show shows state, ejection and mode, and tells the targets that follow. again
// says that a target in rotation now has come back into it.
func (rec *record) show(again bool, now time.Time) {
	before := rec.in
	if !rec.mirror() {
		return
	}
	if rec.in && !before && again {
		at := now
		rec.back.Store(&at)
	}
	for _, t := range rec.followers {
		t.count(before, rec.in)
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

// due returns when the record wants something done: its next check, scheduled
// or extra, or the end of its hold or of its mode. It is false if it wants
// nothing.
func (rec *record) due() (time.Time, bool) {
	at := rec.next
	if !rec.extraAt.IsZero() && (at.IsZero() || rec.extraAt.Before(at)) {
		at = rec.extraAt
	}
	if rec.ejection.held && (at.IsZero() || rec.ejection.until.Before(at)) {
		at = rec.ejection.until
	}
	if lease := rec.operator.until; !lease.IsZero() && (at.IsZero() || lease.Before(at)) {
		at = lease
	}
	return at, !at.IsZero()
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
		rec.keep()
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
