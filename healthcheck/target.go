package healthcheck

import "sync/atomic"

// Target is one address in one pool of one config. What is known about it is
// kept in a record, which other configs may share.
type Target struct {
	registry *Registry
	group    *Group
	address  string
	check    string
	via      string
	probe    Probe // nil if the target is not checked
	spare    bool

	rec atomic.Pointer[record]
}

// TargetConfig describes a target.
type TargetConfig struct {
	// Address is the upstream's address as configured.
	Address string
	// Check and Transport stand for what the check asks and how it travels:
	// results are taken over from targets that have both in common.
	Check, Transport string
	// Probe checks the target. If it is nil, the target is up without checks.
	Probe Probe
	// Spare marks a target that gets no requests though it be up: it does not
	// make up for others.
	Spare bool
}

// Address returns the upstream's address as configured.
func (t *Target) Address() string { return t.address }

// Status returns the current status. It takes no lock.
func (t *Target) Status() Status { return Status(t.rec.Load().status.Load()) }

// CheckSoon asks for a check because a request could not connect. Asking
// again within 250 ms of the last such check delays the check until then. It
// does nothing unless the target is up: otherwise the failure is no news.
func (t *Target) CheckSoon() {
	if t.Status() != Up {
		return
	}
	t.registry.ask(t, dialGap)
}

// CheckNow asks for a check on an operator's word.
func (t *Target) CheckNow() { t.registry.ask(t, 0) }

// Readmit ends the retirement of a retired target: it is down, with no
// failures, and checked at once. In any other status it does nothing.
func (t *Target) Readmit() { t.registry.readmit(t) }

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
	t.count(Unknown, rec.state.Status)
}

// count notes that t went from one status to another.
func (t *Target) count(from, to Status) {
	if from == to {
		return
	}
	if from == Up && !t.spare {
		t.group.in--
	}
	if to == Up && !t.spare {
		t.group.in++
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
	t.count(rec.state.Status, Unknown)
	if len(rec.followers) == 0 {
		t.registry.forget(rec)
	}
}
