package healthcheck

import (
	"strconv"
	"time"
)

// Mode is what an operator wants of a target.
type Mode uint8

const (
	// Ready is the normal mode.
	Ready Mode = iota
	// Drain keeps new requests away. Those under way go on, and so do checks.
	Drain
	// Maint keeps requests and checks away. What was known is forgotten when
	// it ends: the target is unknown then, and checked at once.
	Maint
)

// String returns the name of m as the admin API spells it.
func (m Mode) String() string {
	switch m {
	case Ready:
		return "ready"
	case Drain:
		return "drain"
	case Maint:
		return "maint"
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

// operator is the mode of a target, and when it ends by itself; zero for
// never.
type operator struct {
	mode  Mode
	until time.Time
}

// SetMode sets the mode of the target. With a lease above zero it is ready
// again after that. Requests that wait for a target that goes into Maint are
// cut loose.
func (t *Target) SetMode(mode Mode, lease time.Duration) {
	t.registry.update(func(now time.Time) {
		rec := t.rec.Load()
		if rec.driver != t {
			return
		}
		op := operator{mode: mode}
		if lease > 0 {
			op.until = now.Add(lease)
		}
		t.registry.operate(rec, op, now)
	})
}

// Mode returns the mode of the target. It takes no lock.
func (t *Target) Mode() Mode { return Mode(t.rec.Load().mode.Load()) }

// operate changes what an operator wants of a record's target.
func (r *Registry) operate(rec *record, op operator, now time.Time) {
	t, from, was := rec.driver, rec.operator.mode, rec.in
	rec.operator = op
	switch {
	case op.mode == Maint && from != Maint:
		rec.pause()
	case op.mode != Maint && from == Maint:
		rec.forget(now)
	}
	rec.show(true, now)
	if op.mode != from {
		r.notify(notice{
			group: t.group, address: t.address, from: rec.state.Status, to: rec.state.Status,
			mode: op.mode, wasMode: from, next: op.until, failures: rec.state.Failures,
		})
	}
	if op.mode == Maint && from != Maint {
		r.leave(rec, false)
	}
	if was && !rec.in || op.mode == Ready && from != Ready { // it may be what is left
		t.group.recall(now)
	}
	if rec.running == nil {
		t.begin(now)
		r.startFirsts(now)
	}
}

// pause ends all that is under way or planned, and the ejection.
func (rec *record) pause() {
	rec.cut()
	rec.unplan()
	rec.ejection.out, rec.ejection.held, rec.ejection.until, rec.ejection.reason = false, false, time.Time{}, ""
}

// unplan makes the record one that is not to be checked.
func (rec *record) unplan() {
	rec.next, rec.extraAt, rec.delay = time.Time{}, time.Time{}, 0
}

// forget makes the record one of a target that was never checked.
func (rec *record) forget(now time.Time) {
	from := rec.state.Status
	rec.state = State{}
	rec.reason, rec.since = "", now
	rec.returns = true
	if rec.unchecked {
		rec.state.Status = Up
		rec.reason = "unchecked"
	}
	rec.tally.moved(from.String(), rec.state.Status.String())
}
