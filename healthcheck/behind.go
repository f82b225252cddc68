package healthcheck

import (
	"slices"
	"time"
)

// A config that is replaced leaves requests behind, which go on in its pools.
// If what they wait for leaves rotation after that, as the newer config finds,
// they have to hear of it.

// stay remembers a target of a group that is closed, if requests wait for it.
func (r *Registry) stay(t *Target) {
	place := t.key().place()
	r.tidy(place)
	if t.group.cfg.Owner.Waits(t) && !slices.Contains(r.behind[place], t) {
		r.behind[place] = append(r.behind[place], t)
	}
}

// Stay tells that a request begins to wait for t although its group may be
// closed.
func (t *Target) Stay() {
	t.registry.update(func(time.Time) {
		if t.group.closed { // else it is remembered then
			t.registry.stay(t)
		}
	})
}

// tidy forgets targets for which no request waits any more.
func (r *Registry) tidy(place Key) {
	left, ok := r.behind[place]
	if !ok {
		return
	}
	left = slices.DeleteFunc(left, func(t *Target) bool { return !t.group.cfg.Owner.Waits(t) })
	if r.behind[place] = left; len(left) == 0 {
		delete(r.behind, place)
	}
}

// departure is a target that has left rotation, as its owner is told.
type departure struct {
	target *Target
	shut   bool
}

// leave notes that waiting requests have to be told that the target of rec has
// left rotation, because it is shut or not.
func (r *Registry) leave(rec *record, shut bool) {
	for _, t := range rec.followers {
		r.left = append(r.left, departure{t, shut})
	}
	r.leaveBehind(rec, shut)
}

// leaveBehind is leave for the requests of closed groups.
func (r *Registry) leaveBehind(rec *record, shut bool) {
	for _, t := range r.behind[rec.key.place()] {
		t.rec.Store(rec) // another one if the check is another one now
		r.left = append(r.left, departure{t, shut})
	}
}

// CatchUp makes the targets of a closed group know what is known of their
// pools and addresses now, however the newest config checks them.
func (g *Group) CatchUp() {
	r := g.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if !g.closed { // its targets still follow
		return
	}
	for _, t := range g.targets {
		at := slices.IndexFunc(r.alike[t.address], func(rec *record) bool {
			return rec.driver != nil && rec.key.place() == t.key().place()
		})
		if at >= 0 {
			t.rec.Store(r.alike[t.address][at])
		}
	}
}
