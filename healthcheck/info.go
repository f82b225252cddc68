package healthcheck

import "time"

// Info is what is known about a target, to be shown.
type Info struct {
	Status Status
	// Checked is false for targets without checks.
	Checked bool
	// Failures is the run of failed checks, MaxFailures what retires the
	// target, 0 for never.
	Failures, MaxFailures int
	// Delay is the current delay between checks.
	Delay time.Duration
	// Reason says why the status is what it is, or why the target is ejected.
	Reason string
	// Since is when the status was reached.
	Since time.Time
	// Last is the newest result; its Time is zero if there is none.
	Last Report
	// Next is the next scheduled check, or the readmission of a retired
	// target. Zero if there is none.
	Next time.Time
	// RetireAt is when the target is retired if it goes on failing, not
	// counting the time that the checks take. Zero if it will not be.
	RetireAt time.Time
	// Ejected says that requests have taken the target out of rotation, until
	// EjectedUntil at least.
	Ejected      bool
	EjectedUntil time.Time
	// Mode is the operator mode, Lease when it ends by itself, zero for never.
	Mode  Mode
	Lease time.Time
	// Back is when it came back into rotation. Zero if it was never out of it.
	Back time.Time
}

// Info returns what is known about t.
func (t *Target) Info() Info {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	rec := t.rec.Load()
	set := t.group.cfg.Settings
	info := Info{
		Status: rec.state.Status, Checked: t.probe != nil,
		Failures: rec.state.Failures, MaxFailures: set.limit(),
		Delay: rec.delay, Reason: rec.reason, Since: rec.since,
		Last: rec.last.unpack().Report, Next: rec.next, Back: t.Back(),
		Mode: rec.operator.mode, Lease: rec.operator.until,
		Ejected: rec.ejection.out, EjectedUntil: rec.ejection.until,
	}
	if rec.ejection.out && rec.state.Status == Up {
		info.Reason = "ejected: " + rec.ejection.reason
	}
	if in, ok := rec.state.RetireIn(set); ok && !rec.next.IsZero() && t.group.others(t) {
		info.RetireAt = rec.next.Add(in)
	}
	return info
}
