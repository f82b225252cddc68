package healthcheck

import (
	"slices"
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
	// Started tells that the pool's config is the current one from now on.
	Started()
	// Changed says that a status has changed or that an extra check has
	// ended. It is called without locks held, from any goroutine.
	Changed()
	// Left says that a target left rotation because a check came to no
	// answer, or by ejection; shut says that it takes no new connections, and
	// may be finishing what it has begun. It is called after Changed, without
	// locks held, and also after the group was closed while requests Wait.
	Left(t *Target, shut bool)
	// Waits reports whether requests wait for an answer of the target. It is
	// called with the registry's lock held.
	Waits(*Target) bool
}

// GroupConfig describes the targets of one pool.
type GroupConfig struct {
	// Name is the wanted name of the pool. A second pool of that name in a
	// config becomes name#2, and so on, in order of Server, then of creation.
	Name, Server string
	Settings     Settings
	// Timeout is how long a check takes at most.
	Timeout time.Duration
	Targets []TargetConfig
	Owner   Owner
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

	// began is what the times of requests count from.
	began time.Time

	// in counts the targets in rotation, by tier. Spare ones are up, idle
	// ones do not count.
	in [3]int
	// closed says that the group has left its generation.
	closed bool
	// extras counts the extra checks under way.
	extras int
	// wanted is when such checks were wanted last. turn is the target whose
	// turn it is to be asked next, asked the times of the latest checks.
	wanted time.Time
	turn   int
	asked  [askMost]time.Time
	askAt  int
	// comeback is when the group had a target in rotation again, after it had
	// none.
	comeback time.Time

	nextCheck   time.Time
	nextChecked time.Time
}

// Targets returns the targets: those of the config in its order, then those
// that have been enrolled.
func (g *Group) Targets() []*Target {
	g.registry.mu.Lock()
	defer g.registry.mu.Unlock()
	return slices.Clone(g.targets)
}

// Current reports whether the group is one of the newest config that has
// started.
func (g *Group) Current() bool {
	g.registry.mu.Lock()
	defer g.registry.mu.Unlock()
	return g.generation.current()
}

// Enroll adds targets to a group that may have started already.
func (g *Group) Enroll(targets []TargetConfig) []*Target {
	var added []*Target
	g.registry.update(func(now time.Time) {
		if g.closed {
			return
		}
		for _, tc := range targets {
			t := g.add(tc, now)
			added = append(added, t)
			if g.generation.current() {
				t.drive(nil, now)
				t.begin(now)
			}
		}
		g.registry.startFirsts(now)
	})
	return added
}

// Dismiss removes targets from the group. Checks of them that are under way
// end without a result.
func (g *Group) Dismiss(targets []*Target) {
	g.registry.update(func(now time.Time) {
		for _, t := range targets {
			i := slices.Index(g.targets, t)
			if i < 0 {
				continue
			}
			g.targets = slices.Delete(g.targets, i, i+1)
			t.leave(now)
		}
		g.recall(now)
	})
}

// Serving tells that of all targets these serve at present, as those that a
// dynamic source names. The others do not make up for them.
func (g *Group) Serving(targets []*Target) {
	serving := make(map[*Target]bool, len(targets))
	for _, t := range targets {
		serving[t] = true
	}
	g.registry.update(func(now time.Time) {
		for _, t := range g.targets {
			in := t.rec.Load().in
			switch {
			case serving[t] && t.idle:
				t.idle = false
				t.count(false, in)
			case !serving[t] && !t.idle:
				t.count(in, false)
				t.idle = true
			}
		}
		g.recall(now)
	})
}

// Restore ends the ejections of those targets if none of them is in rotation.
func (g *Group) Restore(targets []*Target) {
	g.registry.update(func(now time.Time) {
		if slices.ContainsFunc(targets, (*Target).InRotation) {
			return
		}
		for _, t := range targets {
			if rec := t.rec.Load(); rec.driver == t && rec.state.Status == Up && rec.ejection.out {
				g.registry.restore(rec, aloneReason, now)
			}
		}
	})
}

// aloneReason is why an ejection ends that would leave nothing to serve.
const aloneReason = "nothing else is in rotation"

// Owner returns the owner given in the config.
func (g *Group) Owner() Owner { return g.cfg.Owner }

// others reports whether another target of t's tier is in rotation.
func (g *Group) others(t *Target) bool {
	n := g.in[t.tier]
	if t.tier == Spare { // for which any other will do
		n = g.in[Primary] + g.in[Backup]
	} else if t.rec.Load().in && !t.idle {
		n--
	}
	return n > 0
}

// lastly reports whether nothing but t is in rotation.
func (g *Group) lastly(t *Target) bool {
	n := g.in[Primary] + g.in[Backup]
	if t.tier != Spare && t.rec.Load().in && !t.idle {
		n--
	}
	return n == 0
}

// recall ends what keeps targets out though they could serve: all retirements
// of a tier of which nothing is in rotation, and all ejections if nothing is
// in rotation at all.
func (g *Group) recall(now time.Time) {
	nothing := g.vacant()
	for _, t := range g.targets {
		rec := t.rec.Load()
		if rec.driver != t || t.idle || rec.operator.mode != Ready {
			continue
		}
		if rec.state.Status == Retired && (g.in[t.tier] == 0 && t.tier != Spare || nothing) {
			rec.state.Recall()
			g.registry.readmitted(rec, rec.loud, now)
		}
		if nothing && rec.state.Status == Up && rec.ejection.out && t.tier != Spare {
			g.registry.restore(rec, aloneReason, now)
		}
	}
}

// vacant reports whether nothing is in rotation.
func (g *Group) vacant() bool { return g.in[Primary]+g.in[Backup] == 0 }

// vacated reports whether a tier has nothing in rotation, after one of it has
// left. Until then there is nothing to recall.
func (g *Group) vacated(tier Tier) bool { return tier != Spare && g.in[tier] == 0 }

// stranded reports whether nothing is in rotation, and no first result can
// change that.
func (g *Group) stranded() bool {
	return g.vacant() && !slices.ContainsFunc(g.targets, func(t *Target) bool {
		rec := t.rec.Load()
		return t.tier != Spare && rec.state.Status == Unknown && rec.operator.mode == Ready
	})
}

// Ask asks for checks because a request found none of those targets in
// rotation, or none at all if it is nil: of each target at most once a second,
// of at most ten targets a second, in turn. While requests keep asking, one
// soon after the other, the checks are spread over the second: if all come back
// at the same time, that is known the sooner. It reports whether there is a
// result to wait for.
func (g *Group) Ask(of []*Target) bool {
	waiting := false
	g.registry.update(func(now time.Time) {
		if of == nil {
			of = g.targets
		}
		waiting = g.ask(of, now)
	})
	return waiting
}

// ask is Ask with the lock held.
func (g *Group) ask(of []*Target, now time.Time) (waiting bool) {
	apart := askGap * 9 / 10 / time.Duration(max(1, min(len(g.targets), askMost))) // some time to spare
	dense := now.Sub(g.wanted) < apart/4
	g.wanted = now
	first := g.turn
	for i := range of {
		if !g.mayAsk(now) {
			break
		}
		turn := (first + i) % len(of)
		t := of[turn]
		rec := t.rec.Load()
		if rec.running != nil {
			waiting = true
		}
		driver := t
		if g.closed { // its requests go on
			driver = rec.driver
		}
		if driver == nil || !driver.checks(rec) || driver.idle || rec.running != nil || now.Sub(rec.extraLast) < askGap ||
			dense && now.Sub(g.lastAsked()) < apart {
			continue
		}
		g.turn = turn + 1
		g.markAsked(now)
		g.registry.begin(rec, true, now)
	}
	return waiting || g.extras > 0
}

// mayAsk reports whether there have been fewer than askMost such checks within
// askWindow.
func (g *Group) mayAsk(now time.Time) bool { return now.Sub(g.asked[g.askAt]) >= askWindow }

// lastAsked returns when the latest of them was.
func (g *Group) lastAsked() time.Time { return g.asked[(g.askAt+askMost-1)%askMost] }

// markAsked notes one of them.
func (g *Group) markAsked(now time.Time) {
	g.asked[g.askAt] = now
	g.askAt = (g.askAt + 1) % askMost
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
		if !t.idle && !next.IsZero() && (g.nextCheck.IsZero() || next.Before(g.nextCheck)) {
			g.nextCheck = next
		}
	}
	return g.nextCheck, !g.nextCheck.IsZero()
}

// Close takes the group out of its generation. Checks under way end without
// a result.
func (g *Group) Close() { g.registry.close(g) }
