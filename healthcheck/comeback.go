package healthcheck

import "time"

// comebackTime is how long after a comeback requests ask for those that are
// still down.
const comebackTime = 10 * time.Second

// AskDown asks for checks of the targets that are down, within the limits of
// Ask, if not long ago all of the group were and one of them has come back
// since: what ended there is likely to end elsewhere, and the one that is back
// should not have to serve alone until the others have their turns on the
// ladder. The pool calls it from time to time while it has requests.
func (g *Group) AskDown() {
	g.registry.update(func(now time.Time) {
		if g.closed || now.Sub(g.comeback) >= comebackTime {
			return
		}
		var down []*Target
		for _, t := range g.targets {
			if t.rec.Load().state.Status == Down {
				down = append(down, t)
			}
		}
		g.ask(down, now)
	})
}

// comebacks returns when groups had their comebacks, by the names of their
// pools.
func (gen *Generation) comebacks() map[string]time.Time {
	all := make(map[string]time.Time)
	for _, g := range gen.groups {
		all[g.name] = g.comeback
	}
	return all
}
