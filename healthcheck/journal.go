package healthcheck

import (
	"sync"
	"time"
)

// journalMost is how many transitions are remembered, of all targets together.
const journalMost = 50

// Change is a transition of a target that people were told about, as it is
// remembered.
type Change struct {
	Time          time.Time
	Pool, Address string
	// From and To are statuses, operator modes, or "ejected".
	From, To string
	// Reason says why. It may be empty.
	Reason string
}

// journal is the latest transitions, in a ring.
type journal struct {
	mu      sync.Mutex
	list    []Change
	next    int
	changed chan struct{} // closed at the next transition, nil if nobody waits
}

// add remembers a transition instead of the oldest one.
func (j *journal) add(t Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.list) < journalMost {
		j.list = append(j.list, t)
	} else {
		j.list[j.next] = t
		j.next = (j.next + 1) % journalMost
	}
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// Changes returns the latest transitions, newest first: those that made
// a log line, so the quiet returns of a dead target are not among them.
func (r *Registry) Changes() []Change {
	j := &r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.list)
	list := make([]Change, n)
	for i := range n {
		list[i] = j.list[(j.next+n-1-i)%n]
	}
	return list
}

// NextChange returns a channel that is closed at the next transition.
func (r *Registry) NextChange() <-chan struct{} {
	j := &r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// transition reports whether the notice is about a change to be remembered.
func (n *notice) transition() bool {
	if n.quiet || n.void || n.doubt {
		return false
	}
	return n.from != n.to || n.ejected || n.restored || n.mode != n.wasMode
}
