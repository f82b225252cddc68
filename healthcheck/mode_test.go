package healthcheck

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

// A drained target gets no requests, but its checks go on.
func TestDrain(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(2)
		p.targets[0].SetMode(Drain, 0)
		l.equal("in rotation", p.targets[0].InRotation(), false)
		l.equal("nobody is sent away", p.left(), "")
		l.at(12)
		l.equal("checks", a.checks(), seconds(0, 5, 10))
		l.equal("known", p.known(0), "up 0 15s")
		p.targets[0].SetMode(Ready, 0)
		l.equal("in rotation", p.targets[0].InRotation(), true)
		l.equal("log", c.logged(zapcore.InfoLevel), `
	0s info: a unknown>up
	0s info: b unknown>up
	2s info: a ready>drain
	12s info: a drain>ready`)
		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s healthy: b unknown>up`)
	})
}

// A target in maintenance gets neither requests nor checks, whoever asks, and
// is unknown after it, and checked at once.
func TestMaint(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.slow("a", "pf", time.Second), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		l.start(p)
		l.at(6.5) // a check is under way since 6 s
		p.targets[0].SetMode(Maint, 0)
		l.equal("those who wait are told", p.left(), "a")
		l.equal("cut short", a.cut, 1)
		l.at(20)
		p.targets[0].CheckNow()
		p.targets[0].CheckSoon()
		p.Ask(nil)
		l.at(100)
		l.equal("checks", a.checks(), seconds(0, 6))
		l.equal("known", p.known(0), "up 0 -1ns")
		a.says("p")
		p.targets[0].SetMode(Ready, 0)
		l.at(100)
		l.equal("known", p.known(0), "unknown 0 -1ns")
		l.equal("since", l.when(p.targets[0].Info().Since), 100*time.Second)
		l.equal("checked at once", a.since(50), seconds(100))
		l.at(101)
		l.equal("known", p.known(0), "up 0 1m46s")
		l.equal("back", l.when(p.targets[0].Back()), 101*time.Second)
	})
}

// A mode ends by itself after its lease, also over reloads.
func TestLease(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := func(check string) *pool { return &pool{set: defaults(), check: check, backends: []*backend{a, b}} }
		first := p("one")
		l.start(first)
		l.at(1)
		first.targets[0].SetMode(Maint, time.Minute)
		first.targets[1].SetMode(Drain, 30*time.Second)
		l.at(10)
		second := p("one")
		l.reload(second)
		l.at(20)
		third := p("two")
		l.reload(third)
		l.equal("modes", []Mode{third.targets[0].Mode(), third.targets[1].Mode()}, []Mode{Maint, Drain})
		l.at(30.9)
		l.equal("in rotation", third.targets[1].InRotation(), false)
		l.at(31)
		l.equal("in rotation", third.targets[1].InRotation(), true)
		l.at(60.9)
		l.equal("checks", a.since(1), seconds())
		l.at(61)
		l.equal("checks", a.since(1), seconds(61))
		l.equal("statuses", third.statuses(), "up up")
		l.equal("lease", third.targets[0].Info().Lease.IsZero(), true)
	})
}

// A mode set anew replaces the lease of the one before.
func TestLeaseIsReplaced(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: defaults(), backends: []*backend{l.backend("a", "p"), l.backend("b", "p")}}
		l.start(p)
		l.at(1)
		p.targets[0].SetMode(Drain, 10*time.Second)
		l.at(2)
		p.targets[0].SetMode(Drain, 0)
		l.at(100)
		l.equal("mode", p.targets[0].Mode(), Drain)
	})
}

// Maintenance of the last one in rotation recalls the retired ones, and brings
// back ejected ones, but not those that the operator keeps out.
func TestMaintOfTheLast(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c, d := l.backend("a", "p"), l.backend("b", "pf"), l.backend("c", "p"), l.backend("d", "p")
		set := defaults()
		set.MaxFailures = 1
		p := &pool{set: set, backends: []*backend{a, b, c, d}}
		l.start(p)
		l.at(6)
		p.targets[3].SetMode(Drain, 0)
		p.targets[2].Eject("latency", failWindow)
		l.equal("statuses", p.statuses(), "up retired up up")
		p.targets[0].SetMode(Maint, 0)
		l.equal("in rotation", []bool{p.targets[2].InRotation(), p.targets[3].InRotation()}, []bool{true, false})
		synctest.Wait()
		l.equal("checks of the retired one", b.since(6), seconds(6))
	})
}

// What was ejected or retired while it was drained is what is left when it is
// ready again and nothing else is in rotation.
func TestReadyOfTheLast(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c := l.backend("a", "p"), l.backend("b", "pf"), l.backend("c", "p")
		set := defaults()
		set.MaxFailures = 1
		p := &pool{set: set, backends: []*backend{a, b, c}}
		l.start(p)
		l.at(6)
		p.targets[0].Eject("latency", failWindow)
		l.equal("statuses", p.statuses(), "up retired up")
		p.targets[0].SetMode(Drain, 0)
		p.targets[1].SetMode(Drain, 0)
		p.targets[2].SetMode(Drain, 0)
		synctest.Wait()
		l.equal("statuses", p.statuses(), "up retired up")
		p.targets[1].SetMode(Ready, 0)
		synctest.Wait()
		l.equal("recalled", p.statuses(), "up down up")
		l.equal("checks of the retired one", b.since(6), seconds(6))
		p.targets[0].SetMode(Ready, 0)
		l.equal("in rotation", p.targets[0].InRotation(), true)
	})
}

// One in maintenance is not checked when a reload makes its check that of
// another pool.
func TestMaintKeepsChecksOfOthersAway(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.backend("a", "p")
		pools := func(check string) []*pool {
			return []*pool{
				{name: "one", set: defaults(), check: check, backends: []*backend{a}},
				{name: "two", set: hourly(), check: "same", backends: []*backend{a}},
			}
		}
		first := pools("other")
		l.start(first...)
		l.at(1)
		first[0].targets[0].SetMode(Maint, 0)
		second := pools("same")
		l.reload(second...)
		l.at(3500)
		l.equal("checks", a.since(1), seconds())
		l.equal("known", second[0].known(0), "up 0 -1ns")
	})
}

func TestMaintWithoutChecks(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: defaults(), unchecked: []string{"a", "b"}}
		l.start(p)
		p.targets[0].SetMode(Maint, time.Second)
		l.equal("in rotation", p.targets[0].InRotation(), false)
		l.at(1)
		l.equal("in rotation", p.targets[0].InRotation(), true)
		l.equal("statuses", p.statuses(), "up up")
	})
}
