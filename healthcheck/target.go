package healthcheck

import (
	"sync/atomic"
	"time"
)

// Target is one address in one pool of one config. What is known about it is
// kept in a record, which other configs may share.
type Target struct {
	registry *Registry
	group    *Group
	address  string
	check    string
	via      string
	probe    Probe // nil if the target is not checked
	tier     Tier
	// idle says that the target does not serve at present, see
	// Group.Serving. The registry's lock guards it.
	idle bool

	rec atomic.Pointer[record]
	// answered and failed are when requests were answered and failed last,
	// counted from the group's beginning.
	answered, failed atomic.Int64
}

// Tier is the part that a target plays in its pool.
type Tier uint8

const (
	// Primary targets serve.
	Primary Tier = iota
	// Backup targets serve while no primary is in rotation.
	Backup
	// Spare targets get no requests though they be up.
	Spare
)

// TargetConfig describes a target.
type TargetConfig struct {
	// Address is the upstream's address as configured.
	Address string
	// Check and Transport stand for what the check asks and how it travels:
	// results are taken over from targets that have both in common.
	Check, Transport string
	// Probe checks the target. If it is nil, the target is up without checks.
	Probe Probe
	// Tier is the part it plays: only targets of a tier make up for others of
	// it, spare ones for none.
	Tier Tier
}

// Address returns the upstream's address as configured.
func (t *Target) Address() string { return t.address }

// Status returns the current status. It takes no lock.
func (t *Target) Status() Status { return Status(t.rec.Load().status.Load()) }

// Tier returns the part that the target plays in its pool.
func (t *Target) Tier() Tier { return t.tier }

// Back returns when the target came back into rotation, the zero time if it
// never was out of it. It takes no lock.
func (t *Target) Back() time.Time {
	if back := t.rec.Load().back.Load(); back != nil {
		return *back
	}
	return time.Time{}
}

// InRotation reports whether the target is eligible for new requests, which
// Spare ones never are. It takes no lock.
func (t *Target) InRotation() bool {
	rec := t.rec.Load()
	return t.tier != Spare && Status(rec.status.Load()) == Up && !rec.out.Load() && Mode(rec.mode.Load()) == Ready
}

// Answered notes that a request was answered, with a status below 500, to the
// millisecond: fewer writes leave the target in the caches of all processors.
func (t *Target) Answered(now time.Time) {
	if at := int64(now.Sub(t.group.began)); at-t.answered.Load() >= int64(time.Millisecond) {
		t.answered.Store(at)
	}
}

// Failed notes that a request failed through no fault of its client.
func (t *Target) Failed(now time.Time) { t.failed.Store(int64(now.Sub(t.group.began))) }

// serves reports whether requests show that the target serves, although a
// check ran into its timeout: some were answered in the second half of the
// check, and none failed in it.
func (t *Target) serves(report Report) bool {
	half := int64(report.Time.Add(report.Duration / 2).Sub(t.group.began))
	return t.answered.Load() >= half && t.failed.Load() < half
}

// CheckSoon asks for a check because a request could not connect. Asking
// again within 250 ms of the last such check delays the check until then. It
// does nothing unless the target is up: otherwise the failure is no news.
func (t *Target) CheckSoon() {
	if t.Status() != Up { // without the lock, for requests of a pool that is down
		return
	}
	t.ask(dialGap, func(rec *record) bool { return rec.state.Status == Up && t.checks(rec) })
}

// CheckSilent asks for a check because requests wait for an answer, by the
// newest config if t is one of an older config, whose requests may go on to
// wait. It does nothing unless the target is up.
func (t *Target) CheckSilent() {
	if t.Status() != Up {
		return
	}
	t.ask(0, func(rec *record) bool {
		return rec.state.Status == Up && rec.driver != nil && rec.driver.checks(rec)
	})
}

// CheckNow asks for a check on an operator's word.
func (t *Target) CheckNow() { t.ask(0, t.checks) }

// ask asks for an extra check, at least gap after the last one, if what is known
// of t when the registry's lock is held is such that it may.
func (t *Target) ask(gap time.Duration, may func(*record) bool) {
	t.registry.update(func(now time.Time) {
		if rec := t.rec.Load(); may(rec) {
			t.registry.extra(rec, gap, now)
		}
	})
}

// Readmit ends the retirement of a retired target: it is down, with no
// failures, and checked at once. In any other status it does nothing.
func (t *Target) Readmit() { t.registry.readmit(t) }

// checks reports whether t is to check the target of rec at all.
func (t *Target) checks(rec *record) bool {
	return rec.driver == t && t.probe != nil && rec.operator.mode != Maint
}

func (t *Target) key() Key {
	return Key{Pool: t.group.name, Address: t.address, Check: t.check, Transport: t.via}
}

// follow makes rec what t knows.
func (t *Target) follow(rec *record) {
	if old := t.rec.Load(); old != nil {
		t.unfollow(old)
	}
	rec.followers = append(rec.followers, t)
	t.rec.Store(rec)
	t.count(false, rec.in)
}

// count notes a change of t, which was in rotation before or not, and is now
// or not.
func (t *Target) count(before, now bool) {
	switch {
	case t.idle:
	case now && !before:
		t.group.in[t.tier]++
	case before && !now:
		t.group.in[t.tier]--
	}
	t.registry.touch(t.group)
}

func (t *Target) unfollow(rec *record) {
	for i, f := range rec.followers {
		if f == t {
			rec.followers = append(rec.followers[:i], rec.followers[i+1:]...)
			break
		}
	}
	t.count(rec.in, false)
	if len(rec.followers) == 0 {
		t.registry.forget(rec)
	}
}
