package healthcheck

import (
	"testing"
	"time"
)

// When one of several that are all down comes back, the others are checked at
// once, and requests go on to ask for them, once a second for ten seconds, over
// reloads too.
func TestComeback(t *testing.T) {
	for name, reloads := range map[string][]float64{"undisturbed": nil, "while reloading": {4.6, 6.6, 8.6, 10.6}} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				a, b, c := l.slow("a", "f", 10*time.Millisecond), l.backend("b", "f"), l.backend("c", "f")
				pools := func() *pool { return &pool{set: hourly(), backends: []*backend{a, b, c}} }
				p := pools()
				l.start(p)
				for at := 1.0; at < 20; at += 0.25 {
					l.at(at)
					p.AskDown()
					if len(reloads) > 0 && at > reloads[0] {
						reloads = reloads[1:]
						p = pools()
						l.reload(p)
					}
					switch at {
					case 3.5:
						a.says("p")
					case 3, 4:
						p.Ask(nil)
					case 4.25:
						l.equal("statuses", p.statuses(), "up down down")
					case 6.75:
						b.says("p")
					case 7.5:
						l.equal("statuses", p.statuses(), "up up down")
					}
				}
				l.equal("checks of a", a.checks(), seconds(0, 3, 4))
				l.equal("checks of b", b.checks(), seconds(0, 3, 4, 4.25, 5.25, 6.25, 7.25))
				l.equal("checks of c", c.checks(), seconds(0, 3, 4, 4.25, 5.25, 6.25, 7.25, 8.25, 9.25, 10.25, 11.25, 12.25, 13.25))
				l.equal("known: only shown", p.known(2), "down 1 1h0m0s")
			})
		})
	}
}

// After a start, or while another one serves, or nobody waits, the schedule is
// enough.
func TestNoComeback(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c := l.backend("a", "p"), l.backend("b", "f"), l.backend("c", "f")
		p := &pool{set: hourly(), backends: []*backend{a, b, c}}
		l.start(p)
		for at := range 20 {
			l.at(float64(at))
			p.AskDown()
			if at == 10 {
				c.says("p")
				p.targets[2].CheckNow()
			}
		}
		l.equal("statuses", p.statuses(), "up down up")
		l.equal("checks", b.checks(), seconds(0))
		c.says("f")
		a.says("fp")
		p.targets[2].CheckNow()
		p.targets[0].CheckNow()
		l.at(3000)
		p.AskDown()
		l.equal("statuses", p.statuses(), "down down down")
		l.at(2*3600 + 10)
		l.equal("back by schedule", p.statuses(), "up down down")
		l.equal("checks", b.checks(), seconds(0, 3600, 7200))
	})
}

// Of many that are down, ten a second are asked for, in turn.
func TestComebackOfMany(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: hourly()}
		for i := range 25 {
			p.backends = append(p.backends, l.backend(string(rune('a'+i)), "f"))
		}
		l.start(p)
		l.at(1)
		p.backends[0].says("p")
		p.targets[0].CheckNow()
		for at := 2.0; at < 20; at += 0.25 {
			l.at(at)
			p.AskDown()
		}
		asked := 0
		for _, b := range p.backends[1:] {
			n := len(b.since(2))
			asked += n
			if n < 3 || n > 4 {
				t.Errorf("%d checks of %s", n, b.address)
			}
		}
		l.equal("asked for from 2 s to 11 s", asked, 90)
	})
}
