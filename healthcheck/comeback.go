package healthcheck

import "time"

// comebackTime is how long after a comeback AskDown asks for checks.
const comebackTime = 10 * time.Second

// comesBack notes that the group has a target in rotation again, after all were
// down: what ended there is likely to end elsewhere, and the one that is back
// should not have to serve alone until the others have their turns on the
// ladder. If requests wait, for which it was checked, the others are checked at
// once, as many as may be asked for.
func (g *Group) comesBack(asked bool, now time.Time) {
	g.comeback = now
	if !asked {
		return
	}
	for _, t := range g.down() {
		if rec := t.rec.Load(); t.checks(rec) && !t.idle && rec.running == nil && g.mayAsk(now) {
			g.markAsked(now)
			g.registry.extra(rec, dialGap, now)
		}
	}
}

// AskDown asks for checks of the targets that are down, within the limits of
// Ask, if the group had a comeback not long ago. The pool calls it from time
// to time while it has requests.
func (g *Group) AskDown() {
	g.registry.update(func(now time.Time) {
		if !g.closed && now.Sub(g.comeback) < comebackTime {
			g.ask(g.down(), now)
		}
	})
}

// down returns the targets that are down.
func (g *Group) down() []*Target {
	var down []*Target
	for _, t := range g.targets {
		if t.rec.Load().state.Status == Down {
			down = append(down, t)
		}
	}
	return down
}

// takeComebacks takes over when the pools had their comebacks in an older
// generation, by their names.
func (gen *Generation) takeComebacks(older *Generation) {
	comebacks := make(map[string]time.Time)
	for _, g := range older.groups {
		comebacks[g.name] = g.comeback
	}
	for _, g := range gen.groups {
		g.comeback = comebacks[g.name]
	}
}
