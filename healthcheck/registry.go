package healthcheck

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// firstMost is how many first checks may run at a time, and how many of those
// after a retirement.
const firstMost = 1000

// Registry owns all targets of a process: their timers, their checks and what
// is known about them over reloads. One lock guards it all; no request takes
// it unless something failed.
type Registry struct {
	mu      sync.Mutex
	records map[Key]*record
	// alike are the records by their address.
	alike map[string][]*record
	// generations are the configs alive, in order of their start; those that
	// have not started are not among them.
	generations []*Generation
	// provisional are those that have not started, by their config.
	provisional map[any]*Generation
	// firsts wait for their first check, or the one after a retirement;
	// starting counts those that run.
	firsts   []*record
	starting int
	// dirty are the groups whose owners have to be told about changes, left
	// what they have to be told about targets that left rotation.
	dirty []*Group
	left  []departure
	// behind are targets of closed groups for which requests still waited
	// when they were closed, by pool and address.
	behind map[Key][]*Target

	logs, events notices
	journal      journal
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{
		records:     make(map[Key]*record),
		alike:       make(map[string][]*record),
		provisional: make(map[any]*Generation),
		behind:      make(map[Key][]*Target),
		logs:        notices{tell: (*notice).log},
		events:      notices{tell: (*notice).emit},
	}
}

// update runs f with the lock held and tells the owners afterwards.
func (r *Registry) update(f func(now time.Time)) {
	r.mu.Lock()
	f(time.Now())
	dirty, left := r.dirty, r.left
	r.dirty, r.left = nil, nil
	r.mu.Unlock()
	for _, g := range dirty {
		g.cfg.Owner.Changed()
	}
	for _, d := range left {
		d.target.group.cfg.Owner.Left(d.target, d.shut)
	}
}

// remember makes rec the record of its key.
func (r *Registry) remember(rec *record) {
	r.records[rec.key] = rec
	r.alike[rec.key.Address] = append(r.alike[rec.key.Address], rec)
}

// forget removes rec if it is the record of its key.
func (r *Registry) forget(rec *record) {
	if r.records[rec.key] != rec {
		return
	}
	delete(r.records, rec.key)
	address := rec.key.Address
	r.alike[address] = slices.DeleteFunc(r.alike[address], func(other *record) bool { return other == rec })
	if len(r.alike[address]) == 0 {
		delete(r.alike, address)
	}
}

// closest returns the record of that key, or failing that one of another pool
// that has all else in common, or nil.
func (r *Registry) closest(key Key) *record {
	if rec, ok := r.records[key]; ok {
		return rec
	}
	for _, rec := range slices.Backward(r.alike[key.Address]) {
		if rec.known() && rec.key.anyPool() == key.anyPool() {
			return rec
		}
	}
	return nil
}

// touch notes that the owner of g is to be told about a change.
func (r *Registry) touch(g *Group) {
	if !slices.Contains(r.dirty, g) {
		r.dirty = append(r.dirty, g)
	}
}

// arm sets the record's timer to what is due next.
func (r *Registry) arm(rec *record, now time.Time) {
	at, ok := rec.due()
	if !ok || rec.driver == nil {
		if rec.timer != nil {
			rec.timer.Stop()
		}
		return
	}
	wait := max(at.Sub(now), 0)
	if rec.timer == nil {
		rec.timer = time.AfterFunc(wait, func() { r.fire(rec) })
		return
	}
	rec.timer.Reset(wait)
}

// fire does what is due.
func (r *Registry) fire(rec *record) {
	r.update(func(now time.Time) {
		if rec.driver == nil {
			return
		}
		if lease := rec.operator.until; !lease.IsZero() && !now.Before(lease) {
			r.operate(rec, operator{}, now)
		}
		if rec.ejection.prove(now) {
			r.prove(rec, now)
		}
		scheduled := !rec.next.IsZero() && !now.Before(rec.next)
		extra := !rec.extraAt.IsZero() && !now.Before(rec.extraAt)
		switch {
		case scheduled && rec.state.Status == Retired:
			rec.state.Return(rec.driver.group.cfg.Settings)
			r.readmitted(rec, rec.loud, now)
		case rec.running != nil:
			if scheduled && rec.running.extra {
				// what is under way serves as the scheduled one
				rec.running.extra = false
				rec.driver.group.extras--
			}
		case scheduled:
			r.begin(rec, false, now)
		case extra:
			r.begin(rec, true, now)
		default:
			r.arm(rec, now)
		}
	})
}

// begin starts a check of a record that has none under way.
func (r *Registry) begin(rec *record, extra bool, now time.Time) {
	t := rec.driver
	rec.extraAt = time.Time{}
	if extra {
		rec.extraLast = now
		t.group.extras++
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	check := &run{cancel: cancel, extra: extra, began: rec.beganAt(now)}
	rec.running = check
	go func() {
		report := t.probe(ctx)
		cancel(nil)
		r.finish(rec, check, report)
	}()
}

// finish counts the report of a check, unless the check was cut short.
func (r *Registry) finish(rec *record, check *run, report Report) {
	r.update(func(now time.Time) {
		if check.first {
			r.starting--
			r.startFirsts(now)
		}
		if rec.running != check {
			return
		}
		r.conclude(rec, report, now)
	})
}

// conclude ends the check under way with that report.
func (r *Registry) conclude(rec *record, report Report, now time.Time) {
	check := rec.running
	rec.running = nil
	if check.extra {
		rec.driver.group.extras--
		r.touch(rec.driver.group)
	}
	r.count(rec, check, report, now)
	r.arm(rec, now)
}

// count applies a report to the record's state and plans the next check.
func (r *Registry) count(rec *record, check *run, report Report, now time.Time) {
	t := rec.driver
	set := t.group.cfg.Settings
	if report.Void {
		rec.tally.checked(report, true)
		rec.history.add(Past{report, check.extra, false})
		r.notify(notice{
			group: t.group, address: t.address, report: report, void: true, quiet: rec.void,
			from: rec.state.Status, to: rec.state.Status, reason: report.Reason, failures: rec.state.Failures,
		})
		rec.void = true
		if rec.state.Status != Retired && (!check.extra || rec.next.IsZero()) {
			rec.next = now.Add(set.Interval)
		}
		return
	}
	rec.last, rec.void = pack(Past{Report: report}), false
	if !report.OK && report.TimedOut() && t.serves(report) {
		r.doubt(rec, check, report, now)
		return
	}
	rec.doubted = false
	rec.tally.checked(report, false)
	e := rec.state.Apply(set, Result{Pass: report.OK, Extra: check.extra, Others: t.group.others(t)})
	rec.history.add(Past{report, check.extra, e.Counted})
	if !report.OK {
		rec.extraAt = time.Time{} // what was asked for is known now
	}
	reason := report.Reason
	if report.OK && e.To != Up {
		reason = rec.reason // still down, and why
	}
	vacant := t.group.vacant()
	if e.Counted {
		rec.move(e.From, reason, now)
		rec.schedule(set, now, e.FirstPass)
	}
	if e.To == Retired && e.From != Retired {
		rec.loud = e.Loud
	}
	r.notify(notice{
		group: t.group, address: t.address, report: report, extra: check.extra,
		from: e.From, to: e.To, reason: reason, quiet: e.To == Retired && !e.Loud,
		failures: rec.state.Failures, delay: rec.delay, next: rec.next,
	})
	r.weigh(rec, report, now)
	if e.From == Down && vacant && !t.group.vacant() {
		t.group.comesBack(check.extra, now)
	}
	if e.From == Up && e.To != Up && !report.Answered {
		r.leave(rec, shut(report.Reason))
	} else if e.From == Unknown && e.To != Up && !report.Answered {
		r.leaveBehind(rec, shut(report.Reason)) // a check that is new with this config
	}
	r.tidy(rec.key.place())
	if e.From == Up && e.To != Up && t.group.vacated(t.tier) || e.From != e.To && t.group.stranded() {
		t.group.recall(now)
	}
}

// doubt passes over a check that ran into its timeout though the target
// answers requests: it is logged, but does not count.
func (r *Registry) doubt(rec *record, check *run, report Report, now time.Time) {
	set := rec.driver.group.cfg.Settings
	r.notify(notice{
		group: rec.driver.group, address: rec.driver.address, report: report, doubt: true, quiet: rec.doubted,
		from: rec.state.Status, to: rec.state.Status, reason: report.Reason, failures: rec.state.Failures,
	})
	rec.tally.checked(report, true)
	rec.history.add(Past{report, check.extra, false})
	rec.doubted = true
	if !check.extra {
		rec.next = now.Add(spread(set.Interval, set.Jitter, rand.Float64()))
	}
}

// readmitted goes on after the state of a retired record became down: one
// check at once, or as soon as the one under way has ended.
func (r *Registry) readmitted(rec *record, loud bool, now time.Time) {
	t := rec.driver
	rec.move(Retired, rec.reason, now)
	rec.delay = 0
	rec.next = now
	r.notify(notice{
		group: t.group, address: t.address, from: Retired, to: Down,
		reason: rec.reason, quiet: !loud, failures: rec.state.Failures,
	})
	r.firsts = append(r.firsts, rec) // many may be recalled at once
	r.startFirsts(now)
}

// readmit ends the retirement of t on an operator's word.
func (r *Registry) readmit(t *Target) {
	r.update(func(now time.Time) {
		rec := t.rec.Load()
		if rec.driver != t || rec.state.Status != Retired || rec.operator.mode == Maint {
			return
		}
		rec.state.Readmit()
		r.readmitted(rec, true, now)
	})
}

// extra starts an extra check, at least gap after the last one, or plans it for
// as soon as there may be one. If a check is under way, which may have passed
// the point of failure already, another one follows it unless it fails.
func (r *Registry) extra(rec *record, gap time.Duration, now time.Time) {
	at := now
	if earliest := rec.extraLast.Add(gap); earliest.After(at) {
		at = earliest
	}
	if !rec.extraAt.IsZero() && !at.Before(rec.extraAt) {
		return
	}
	if rec.running == nil && !at.After(now) {
		r.begin(rec, true, now)
		return
	}
	rec.extraAt = at
	if rec.running == nil {
		r.arm(rec, now)
	}
}

// startFirsts starts first checks as far as there is room.
func (r *Registry) startFirsts(now time.Time) {
	for len(r.firsts) > 0 && r.starting < firstMost {
		rec := r.firsts[0]
		r.firsts = r.firsts[1:]
		if rec.driver == nil || rec.running != nil || rec.operator.mode == Maint {
			continue
		}
		if rec.known() && (rec.state.Status == Retired || rec.next.IsZero() || rec.next.After(now)) { // by now
			continue
		}
		r.starting++
		r.begin(rec, false, now)
		rec.running.first = true
	}
}
