package healthcheck

import (
	"slices"
	"time"
)

// Eject takes the target out of rotation because of its failed requests, for
// as long as the ladder says of its ejections in a row; reason says what
// failed. Ejections no more than window apart are in a row. It does nothing,
// and returns false, if the target is not in rotation or nothing else is: of
// its group or, if they are given, of those among which requests choose.
func (t *Target) Eject(reason string, window time.Duration, among ...*Target) (ejected bool) {
	t.registry.update(func(now time.Time) {
		rec := t.rec.Load()
		lastly := len(among) == 0 && t.group.lastly(t) || len(among) > 0 &&
			!slices.ContainsFunc(among, func(other *Target) bool { return other != t && other.InRotation() })
		ejected = rec.driver == t && rec.in && !lastly
		if ejected {
			t.registry.eject(rec, reason, window, now)
		}
	})
	return ejected
}

// Ejections returns the serial number of the latest ejection, 0 if there was
// none: evidence from before an ejection says nothing after it.
func (t *Target) Ejections() uint64 { return t.rec.Load().serial.Load() }

// Trial returns the serial number of the ejection that one request has to
// decide on, because there are no checks to do it, or 0.
func (t *Target) Trial() uint64 { return t.rec.Load().trial.Load() }

// Tried tells how the trial request of an ejection ended.
func (t *Target) Tried(serial uint64, ok bool, reason string, window time.Duration) {
	t.registry.update(func(now time.Time) {
		rec := t.rec.Load()
		switch {
		case rec.driver != t || rec.trial.Load() != serial:
		case ok:
			t.registry.restore(rec, "a trial request succeeded", now)
		default:
			t.registry.eject(rec, reason, window, now)
		}
	})
}

// eject ejects the target of a record.
func (r *Registry) eject(rec *record, reason string, window time.Duration, now time.Time) {
	t := rec.driver
	again := rec.ejection.out
	rec.ejection.eject(t.group.cfg.Settings, reason, window, now)
	rec.show(true, now)
	r.notify(notice{
		group: t.group, address: t.address, from: rec.state.Status, to: rec.state.Status,
		reason: reason, ejected: true, quiet: again, failures: rec.state.Failures,
		delay: rec.ejection.until.Sub(now), next: rec.ejection.until,
	})
	if !again {
		rec.tally.moved(rec.state.Status.String(), ejected)
		r.leave(rec, shut(reason))
		if t.group.vacated(t.tier) {
			t.group.recall(now)
		}
	}
	if rec.running == nil {
		r.arm(rec, now)
	}
}

// prove goes on after the hold of an ejection is over: a check decides or,
// where there are none, a trial request.
func (r *Registry) prove(rec *record, now time.Time) {
	if rec.unchecked {
		rec.show(true, now)
		return
	}
	if rec.state.Status != Up || !rec.extraAt.IsZero() || rec.operator.mode == Maint {
		return // what is scheduled decides
	}
	if rec.running == nil {
		r.begin(rec, true, now)
		return
	}
	rec.extraAt = now
}

// weigh decides an ejection whose hold is over by the result of a check. A
// failed one is left to the status, unless the target is still up.
func (r *Registry) weigh(rec *record, report Report, now time.Time) {
	switch {
	case rec.state.Status != Up || !rec.ejection.proving(now):
	case report.OK:
		r.restore(rec, "a check passed", now)
	default:
		r.eject(rec, report.Reason, 0, now)
	}
}

// restore ends an ejection.
func (r *Registry) restore(rec *record, reason string, now time.Time) {
	t := rec.driver
	rec.ejection.restore(now)
	rec.tally.moved(ejected, rec.state.Status.String())
	rec.show(true, now)
	r.notify(notice{
		group: t.group, address: t.address, from: rec.state.Status, to: rec.state.Status,
		reason: reason, restored: true, failures: rec.state.Failures,
	})
}
