package healthcheck

import (
	"time"

	"go.uber.org/zap"
)

// Limits on the checks that requests ask for when nothing is in rotation.
const (
	askGap    = time.Second // between two of a target
	askMost   = 10          // of a group per askWindow
	askWindow = time.Second
)

// nextCheckAge is how long an answer of NextCheck may be given again.
const nextCheckAge = time.Second

// Owner is what a group tells its pool.
type Owner interface {
	// Named tells the final name of the pool, before any check.
	Named(name string)
	// Changed says that a status has changed or that an extra check has
	// ended. It is called without locks held, from any goroutine.
	Changed()
}

// GroupConfig describes the targets of one pool.
type GroupConfig struct {
	// Name is the wanted name of the pool. A second pool of that name in a
	// config becomes name#2, and so on, in order of Server, then of creation.
	Name, Server string
	Settings     Settings
	Targets      []TargetConfig
	Owner        Owner
	// Logger gets a line per transition.
	Logger *zap.Logger
	// Emit emits an event. It may be nil.
	Emit func(event string, data map[string]any)
}

// Group is the targets of one pool of one config.
type Group struct {
	registry   *Registry
	generation *Generation
	cfg        GroupConfig
	name       string
	targets    []*Target

	// in counts the targets that are up and get requests.
	in int
	// extras counts the extra checks under way.
	extras int
	// turn is the target whose turn it is to be asked next, asked the times
	// of the latest such checks.
	turn  int
	asked [askMost]time.Time
	askAt int

	nextCheck   time.Time
	nextChecked time.Time
}

// Targets returns the targets in the order of the config.
func (g *Group) Targets() []*Target { return g.targets }

// Owner returns the owner given in the config.
func (g *Group) Owner() Owner { return g.cfg.Owner }

// others reports whether a target other than t is in rotation.
func (g *Group) others(t *Target) bool {
	n := g.in
	if t.Status() == Up && !t.spare {
		n--
	}
	return n > 0
}

// recall ends all retirements if nothing is in rotation.
func (g *Group) recall(now time.Time) {
	if g.in > 0 {
		return
	}
	for _, t := range g.targets {
		rec := t.rec.Load()
		if rec.driver != t || rec.state.Status != Retired {
			continue
		}
		rec.state.Recall()
		g.registry.readmitted(rec, rec.loud, now)
	}
}

// Ask asks for checks because a request found nothing in rotation: of each
// target at most once a second, of at most ten targets a second, in turn. It
// reports whether there is a result to wait for.
func (g *Group) Ask() bool {
	waiting := false
	g.registry.update(func(now time.Time) {
		for range g.targets {
			if now.Sub(g.asked[g.askAt]) < askWindow {
				break
			}
			t := g.targets[g.turn]
			g.turn = (g.turn + 1) % len(g.targets)
			rec := t.rec.Load()
			if rec.running != nil {
				waiting = true
			}
			if rec.driver != t || t.probe == nil || rec.running != nil || now.Sub(rec.extraLast) < askGap {
				continue
			}
			g.asked[g.askAt] = now
			g.askAt = (g.askAt + 1) % askMost
			g.registry.begin(rec, true, now)
		}
		waiting = waiting || g.extras > 0
	})
	return waiting
}

// NextCheck returns the time of the earliest scheduled check of the group. It
// is false if none is scheduled.
func (g *Group) NextCheck() (time.Time, bool) {
	g.registry.mu.Lock()
	defer g.registry.mu.Unlock()
	now := time.Now()
	if now.Sub(g.nextChecked) < nextCheckAge && now.Before(g.nextCheck) {
		return g.nextCheck, true
	}
	g.nextCheck, g.nextChecked = time.Time{}, now
	for _, t := range g.targets {
		next := t.rec.Load().next
		if !next.IsZero() && (g.nextCheck.IsZero() || next.Before(g.nextCheck)) {
			g.nextCheck = next
		}
	}
	return g.nextCheck, !g.nextCheck.IsZero()
}

// Close takes the group out of its generation. Checks under way end without
// a result.
func (g *Group) Close() { g.registry.close(g) }
