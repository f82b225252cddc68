package healthcheck

import (
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

const failWindow = 10 * time.Second

// ejectedUntil returns when the hold of a target ends or ended, -1 if it is
// not ejected.
func (p *pool) ejectedUntil(i int) time.Duration {
	return p.backends[i].lab.when(p.targets[i].Info().EjectedUntil)
}

// The ejection lasts as the ladder says, a passed check does not shorten it,
// and the first passed check after it puts the target back.
func TestEjectionHoldsAndIsProved(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(2)
		l.equal("ejected", p.targets[0].Eject("status 500", failWindow), true)
		l.equal("told to those who wait", p.left(), "a")
		l.equal("in rotation", []bool{p.targets[0].InRotation(), p.targets[1].InRotation()}, []bool{false, true})
		l.equal("status", p.statuses(), "up up")
		l.equal("until", p.ejectedUntil(0), 12*time.Second)
		l.at(11.9)
		l.equal("checks go on", a.checks(), seconds(0, 5, 10))
		l.equal("and do not shorten it", p.targets[0].InRotation(), false)
		l.at(12)
		l.equal("the check that proves it", a.since(11), seconds(12))
		l.equal("in rotation", p.targets[0].InRotation(), true)
		l.equal("until", p.ejectedUntil(0), time.Duration(-1))
		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s healthy: b unknown>up
	2s ejected: a up>ejected
	12s restored: a ejected>up`)
		l.equal("log", c.logged(zapcore.InfoLevel), `
	0s info: a unknown>up
	0s info: b unknown>up
	2s warn: a up>ejected
	12s info: a ejected>up`)
	})
}

// Ejections in a row last longer and longer; after a time of service they
// begin anew.
func TestEjectionsInARow(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		l.start(p)
		at := 1.0
		for _, hold := range []float64{10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 60} {
			l.at(at)
			p.targets[0].Eject("latency", failWindow)
			l.equal("until", p.ejectedUntil(0), seconds(at + hold)[0])
			at += hold + 9 // back for 9 s
		}
		l.at(at + 52) // back for 61 s
		p.targets[0].Eject("latency", failWindow)
		l.equal("until", p.ejectedUntil(0), seconds(at + 62)[0])
	})
}

// What counts as in a row is the longer of the last hold and fail_duration.
func TestEjectionsInARowWithinFailDuration(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: defaults(), backends: []*backend{l.backend("a", "p"), l.backend("b", "p")}}
		l.start(p)
		l.at(1)
		p.targets[0].Eject("latency", time.Minute)
		l.at(11 + 59)
		p.targets[0].Eject("latency", time.Minute)
		l.equal("until", p.ejectedUntil(0), 85*time.Second)
	})
}

func TestEjectionNeverTakesTheLast(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "pppf")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(1)
		l.equal("ejected", p.targets[0].Eject("latency", failWindow), true)
		l.equal("the last one", p.targets[1].Eject("latency", failWindow), false)
		l.equal("again", p.targets[0].Eject("latency", failWindow), false)
		l.at(9)
		p.targets[1].CheckNow() // passes
		l.at(9.5)
		p.targets[1].CheckNow() // fails: now nothing else is left
		l.at(9.6)
		l.equal("statuses", p.statuses(), "up down")
		l.equal("in rotation", p.targets[0].InRotation(), true)
		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s healthy: b unknown>up
	1s ejected: a up>ejected
	9.5s restored: a ejected>up
	9.5s unhealthy: b up>down`)
	})
}

// A primary may be ejected when only a backup is left.
func TestEjectionLeavesABackup(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: defaults(), backends: []*backend{l.backend("a", "p"), l.backend("b", "p")}, backups: 1}
		l.start(p)
		l.at(1)
		l.equal("ejected", p.targets[0].Eject("latency", failWindow), true)
	})
}

// A check that fails after the hold leaves it to the status, and the next
// passed one proves the target; one that fails without taking it down ejects
// it again for longer.
func TestEjectionIsNotProved(t *testing.T) {
	t.Run("down", func(t *testing.T) {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", "pppf"), l.backend("b", "p")
			p := &pool{set: defaults(), backends: []*backend{a, b}}
			l.start(p)
			l.at(2)
			p.targets[0].Eject("latency", failWindow)
			l.at(13)
			a.says("p")
			l.equal("status", p.known(0), "down 1 22s")
			l.at(22)
			l.equal("in rotation", p.targets[0].InRotation(), true)
		})
	})
	t.Run("up", func(t *testing.T) {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", "pppfp"), l.backend("b", "p")
			set := defaults()
			set.Fails = 3
			p := &pool{set: set, backends: []*backend{a, b}}
			l.start(p)
			l.at(2)
			p.targets[0].Eject("latency", failWindow)
			l.at(12)
			l.equal("until", p.ejectedUntil(0), 27*time.Second)
			l.at(26)
			l.equal("in rotation", p.targets[0].InRotation(), false)
			l.at(27)
			l.equal("in rotation", p.targets[0].InRotation(), true)
		})
	})
}

// Without checks, exactly one trial request decides.
func TestEjectionWithoutChecks(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: defaults(), unchecked: []string{"a", "b"}}
		l.start(p)
		a := p.targets[0]
		l.at(1)
		a.Eject("status 500", failWindow)
		l.equal("trial", a.Trial(), 0)
		l.at(11)
		first := a.Trial()
		l.equal("in rotation", a.InRotation(), false)
		a.Tried(first, false, "status 500", failWindow)
		l.equal("until", l.when(a.Info().EjectedUntil), 26*time.Second)
		l.equal("trial", a.Trial(), 0)
		a.Tried(first, true, "", failWindow) // too late
		l.equal("in rotation", a.InRotation(), false)
		l.at(26)
		second := a.Trial()
		l.equal("another trial", second != 0 && second != first, true)
		a.Tried(second, true, "", failWindow)
		l.equal("in rotation", a.InRotation(), true)
		l.equal("trial", a.Trial(), 0)
	})
}

// An ejection goes with pool and address over reloads, also if the check
// changes, and is undone with the config that brought it.
func TestEjectionOverReloads(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := func(check string) *pool { return &pool{set: defaults(), check: check, backends: []*backend{a, b}} }
		first := p("one")
		l.start(first)
		l.at(1)
		first.targets[0].Eject("latency", failWindow)
		l.at(3)
		second := p("one")
		l.reload(second)
		l.equal("same check", second.ejectedUntil(0), 11*time.Second)
		l.at(4)
		third := p("two")
		l.reload(third)
		l.equal("another check", third.ejectedUntil(0), 11*time.Second)
		l.equal("checked anew", third.statuses(), "up up")
		l.at(11)
		l.equal("in rotation", third.targets[0].InRotation(), true)

		l.at(12)
		failing := l.build(p("two"))
		failing.gen.Start()
		l.at(13)
		failing.pools[0].targets[0].Eject("latency", failWindow)
		l.equal("followed", third.targets[0].InRotation(), false)
		failing.close()
		l.equal("undone", third.targets[0].InRotation(), true)
	})
}

func TestEjectionOfAnotherPoolIsNone(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		one := &pool{name: "one", set: defaults(), backends: []*backend{a, b}}
		two := &pool{name: "two", set: defaults(), backends: []*backend{a, b}}
		l.start(one, two)
		l.at(1)
		one.targets[0].Eject("latency", failWindow)
		l.equal("in the other pool", two.targets[0].InRotation(), true)
		three := &pool{name: "three", set: defaults(), backends: []*backend{a, b}}
		l.reload(three)
		l.equal("in a renamed pool", three.targets[0].InRotation(), true)
	})
}

// Retirement needs another of the same tier in rotation; what ejection took
// out of it does not count.
func TestTiersAndEjectionsInRule5(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c := l.backend("a", "pf"), l.backend("b", "p"), l.backend("c", "p")
		set := defaults()
		set.MaxFailures = 2
		p := &pool{set: set, backends: []*backend{a, b, c}, backups: 1}
		l.start(p)
		l.at(4)
		p.targets[1].Eject("latency", failWindow) // 10 s
		l.at(16)
		l.equal("statuses", p.statuses(), "retired up up")
		l.at(17)
		p.targets[1].Eject("latency", failWindow)
		l.at(17)
		l.equal("recalled, as the last primary left", p.statuses(), "down up up")
		l.equal("and checked at once", a.since(16.5), seconds(17))
		p.targets[0].CheckNow()
		l.at(18)
		l.equal("not retired without another primary", p.statuses(), "down up up")
	})
}

// A check that timed out is no failure if the target answered requests in the
// second half of it and failed none.
func TestBenefitOfTheDoubt(t *testing.T) {
	for _, tc := range []struct {
		name             string
		answered, failed float64 // seconds, 0 for never
		counted          bool
	}{
		{"no requests", 0, 0, true},
		{"answered in the second half", 8, 0, false},
		{"answered in the first half only", 6, 0, true},
		{"failed in the second half", 8, 8.5, true},
		{"failed in the first half", 8, 6, false},
		{"failed and then answered", 8.5, 8, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				a, b := l.backend("a", "ptp"), l.backend("b", "p")
				p := &pool{set: defaults(), backends: []*backend{a, b}}
				c := l.start(p)
				l.at(4.5)
				a.slowDown(4 * time.Second) // the check from 5 to 9 s
				for s := 5.5; s < 9; s += 0.5 {
					l.at(s)
					if s == tc.answered {
						p.targets[0].Answered(time.Now())
					}
					if s == tc.failed {
						p.targets[0].Failed(time.Now())
					}
				}
				l.at(9)
				a.slowDown(0)
				want := "up 0 14s"
				if tc.counted {
					want = "down 1 19s"
				}
				l.equal("known", p.known(0), want)
				l.equal("shown as the last check", p.targets[0].Info().Last.Reason, timedOut)
				if !tc.counted {
					l.equal("log", c.logged(zapcore.WarnLevel), `
	9s warn: a up>up`)
				}
			})
		})
	}
}

// Who waits is told only if the check came to no answer.
func TestWhoWaitsIsTold(t *testing.T) {
	for script, want := range map[string]string{"pf": "a (shut)", "pt": "a", "pa": ""} {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", script), l.backend("b", "p")
			p := &pool{set: defaults(), backends: []*backend{a, b}}
			l.start(p)
			l.at(6)
			l.equal("statuses", p.statuses(), "down up")
			l.equal("told after "+script, p.left(), want)
		})
	}
}

// Targets that are enrolled later are checked at once, and dismissed ones no
// more.
func TestEnrollAndDismiss(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a}}
		l.start(p)
		l.at(2)
		added := p.Enroll([]TargetConfig{{Address: "b", Probe: b.probe}})
		l.at(3)
		l.equal("statuses", p.statuses(), "up up")
		l.at(8)
		l.equal("checks", b.checks(), seconds(2, 7))
		p.Dismiss(added)
		l.at(30)
		l.equal("checks", b.checks(), seconds(2, 7))
		l.equal("statuses", p.statuses(), "up")
	})
}

// What comes up while nothing is in rotation is not kept out by an ejection
// from before, whichever way the others went.
func TestEjectionEndsWhereNothingElseIsLeft(t *testing.T) {
	t.Run("the ejected one recovers last", func(t *testing.T) {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", "p"), l.backend("b", "p")
			p := &pool{set: defaults(), backends: []*backend{a, b}}
			l.start(p)
			l.at(1)
			p.targets[0].Eject("latency", failWindow) // until 11 s
			a.says("f")
			p.targets[0].CheckNow()
			l.at(2)
			b.says("f")
			p.targets[1].CheckNow()
			l.at(3)
			l.equal("statuses", p.statuses(), "down down")
			a.says("p")
			p.targets[0].CheckNow()
			l.at(3)
			l.equal("statuses", p.statuses(), "up down")
			l.equal("in rotation", p.targets[0].InRotation(), true)
		})
	})
	t.Run("kept over a reload", func(t *testing.T) {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", "p"), l.backend("b", "p")
			p := func(check string) *pool { return &pool{set: defaults(), check: check, backends: []*backend{a, b}} }
			first := p("one")
			l.start(first)
			l.at(1)
			first.targets[0].Eject("latency", failWindow)
			b.says("f")
			b.slowDown(time.Second)
			second := p("two")
			l.reload(second)
			l.at(1.5)
			l.equal("statuses", second.statuses(), "up unknown")
			l.equal("kept, as the other may come up", second.ejectedUntil(0), 11*time.Second)
			l.at(2)
			l.equal("statuses", second.statuses(), "up down")
			l.equal("in rotation", second.targets[0].InRotation(), true)
		})
	})
}
