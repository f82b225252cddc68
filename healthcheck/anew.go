package healthcheck

import "time"

// A reload begins the checks anew that it cuts short. Were that all, a frozen
// upstream would not be found out while reloads follow each other faster than
// checks time out. So it is remembered when such a check began at first: once
// it has gone on for as long as a check may take, and requests have waited in
// vain for as long, it has timed out.

// unfinished is a check that was cut short, until it runs anew.
type unfinished struct {
	// began is when it began at first.
	began time.Time
	// answered and failed are when its driver saw requests answered and failed
	// last.
	answered, failed time.Time
}

// keep keeps the check under way, which is to be cut short.
func (rec *record) keep() {
	t := rec.driver
	rec.unfinished = &unfinished{
		began:    rec.running.began,
		answered: t.group.began.Add(time.Duration(t.answered.Load())),
		failed:   t.group.began.Add(time.Duration(t.failed.Load())),
	}
}

// remember makes t, which is to begin a check anew, know what the driver before
// knew of requests, unless it has seen some itself.
func (t *Target) remember(u *unfinished) {
	if u == nil {
		return
	}
	t.answered.CompareAndSwap(0, int64(u.answered.Sub(t.group.began)))
	t.failed.CompareAndSwap(0, int64(u.failed.Sub(t.group.began)))
}

// beganAt returns when a check began at first that runs now, maybe anew.
func (rec *record) beganAt(now time.Time) time.Time {
	if u := rec.unfinished; u != nil {
		rec.unfinished = nil
		return u.began
	}
	return now
}

// Unanswered tells that requests have waited for an answer for that long and
// none has come. If that is as long as a check may take, a check under way that
// has gone on for as long, begun anew by reloads, ends: it has timed out.
func (t *Target) Unanswered(wait time.Duration) {
	if t.Status() != Up || wait < t.group.cfg.Timeout {
		return
	}
	t.registry.update(func(now time.Time) {
		rec := t.rec.Load()
		if rec.driver == nil || rec.running == nil {
			return
		}
		check, most := rec.running, rec.driver.group.cfg.Timeout
		took := now.Sub(check.began)
		if most <= 0 || took < most || wait < most {
			return
		}
		check.cancel(errTimeout)
		t.registry.conclude(rec, Report{
			Time: check.began, Duration: took, Reason: timedOut, Detail: errTimeout.Error(),
		}, now)
	})
}
