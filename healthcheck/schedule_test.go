package healthcheck

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

// withJitter returns the defaults with jitter and another interval.
func withJitter(interval time.Duration) Settings {
	set := new(Config).Settings()
	set.Interval = interval
	return set
}

// hourly returns settings that schedule nothing within the hour.
func hourly() Settings {
	set := defaults()
	set.Interval, set.MaxInterval = time.Hour, time.Hour
	return set
}

func TestDefaultLadder(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "f")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)

		l.at(1)
		info := p.targets[1].Info()
		l.equal("max_failures", info.MaxFailures, 10)
		l.equal("delay", info.Delay, 10*time.Second)
		l.equal("retire_at", l.when(info.RetireAt), 270*time.Second)
		l.at(100)
		l.equal("retire_at", l.when(p.targets[1].Info().RetireAt), 270*time.Second)
		l.at(269.999)
		l.equal("statuses", p.statuses(), "up down")
		l.equal("known", p.known(1), "down 9 4m30s")
		l.at(270)
		l.equal("statuses", p.statuses(), "up retired")
		l.equal("known", p.known(1), "retired 10 9m30s")
		l.equal("retire_at", l.when(p.targets[1].Info().RetireAt), time.Duration(-1))
		l.at(569.999)
		l.equal("checks", b.checks(), seconds(0, 10, 25, 45, 70, 100, 135, 175, 220, 270))
		l.at(570)
		l.equal("known after one check", p.known(1), "retired 10 14m30s")
		l.at(1169)
		l.equal("checks of retired", b.since(271), seconds(570, 870))
		b.says("p")
		l.at(1181)
		l.equal("checks", b.since(871), seconds(1170, 1175, 1180))
		l.equal("known", p.known(1), "up 0 19m45s")
		l.equal("delay", p.targets[1].Info().Delay, 5*time.Second)

		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s unhealthy: b unknown>down
	4m30s retired: b down>retired
	9m30s readmitted: b retired>down
	19m30s healthy: b down>up`)
		l.equal("loud lines", c.logged(zapcore.WarnLevel), `
	0s warn: b unknown>down
	4m30s error: b down>retired`)

		b.says("f")
		l.at(1200)
		l.equal("ladder after it was up", b.since(1181), seconds(1185, 1195))
	})
}

func TestDelaysCountFromTheEnd(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.slow("a", "p", 2*time.Second), l.slow("b", "f", 3*time.Second)
		p := &pool{set: thresholds(1, 1, 4), backends: []*backend{a, b}}
		l.start(p)
		l.at(1.999)
		l.equal("statuses", p.statuses(), "unknown unknown")
		l.at(2)
		l.equal("statuses", p.statuses(), "up unknown")
		l.at(356)
		l.equal("checks of up", a.checks()[:4], seconds(0, 7, 14, 21))
		// they end at 3, 16, 34 and 57
		l.equal("checks of down", b.checks(), seconds(0, 13, 31, 54))
		l.equal("known", p.known(1), "retired 4 5m57s")
		l.at(358)
		l.equal("check of returned", b.since(55), seconds(357))
		l.equal("known meanwhile", p.known(1), "down 3 5m57s")
		l.at(361)
		l.equal("known after it", p.known(1), "retired 4 11m0s")
	})
}

func TestThresholds(t *testing.T) {
	tests := []struct {
		name   string
		set    Settings
		script string
		until  float64
		want   []time.Duration
		known  string
	}{
		{
			name: "pending failures are checked again after the interval",
			set:  thresholds(3, 1, 10), script: "ppfff", until: 41,
			want: seconds(0, 5, 10, 15, 20, 30, 45), known: "down 4 45s",
		},
		{
			name: "a pass ends a run of failures",
			set:  thresholds(3, 1, 10), script: "pffpffp", until: 31,
			want: seconds(0, 5, 10, 15, 20, 25, 30, 35), known: "up 0 35s",
		},
		{
			name: "pending passes are checked again after the interval",
			set:  thresholds(1, 2, 10), script: "ffp", until: 31,
			want: seconds(0, 10, 25, 30, 35), known: "up 0 35s",
		},
		{
			name: "a failure between passes begins the ladder anew",
			set:  thresholds(1, 2, 10), script: "ffpfpp", until: 51,
			want: seconds(0, 10, 25, 30, 40, 45, 50, 55), known: "up 0 55s",
		},
		{
			name: "h3405: only the first check fails",
			set:  thresholds(3, 1, 10), script: "fp", until: 10,
			want: seconds(0, 10, 15), known: "up 0 15s",
		},
		{
			name: "the first result decides whatever the thresholds",
			set:  thresholds(3, 3, 10), script: "p", until: 0,
			want: seconds(0, 5), known: "up 0 5s",
		},
		{
			name: "a maximum below health_fails",
			set:  thresholds(3, 1, 1), script: "pf", until: 311,
			want: seconds(0, 5, 10, 15, 315), known: "retired 3 5m15s",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				b := l.backend("b", test.script)
				p := &pool{set: test.set, backends: []*backend{b}, unchecked: []string{"other"}}
				l.start(p)
				l.at(test.until)
				l.equal("known", p.known(0), test.known)
				last := test.want[len(test.want)-1]
				l.at(last.Seconds())
				l.equal("checks", b.checks(), test.want)
			})
		})
	}
}

// Rule 5: a pool never retires itself to nothing.

func TestLastOneIsNeverRetired(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "f"), l.slow("b", "f", time.Second)
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(330.5)
		l.equal("statuses", p.statuses(), "down down")
		l.equal("retire_at", l.when(p.targets[0].Info().RetireAt), time.Duration(-1))
		a.says("p")
		l.at(391)
		l.equal("checks of the one that comes back", a.since(200), seconds(220, 270, 330, 390))
		l.equal("known", p.known(0), "up 0 6m35s")
		l.equal("known", p.known(1), "down 11 6m41s")
		l.at(402)
		// they end at 229, 280, 341 and 402
		l.equal("checks of the one that does not", b.since(228), seconds(228, 279, 340, 401))
		l.equal("statuses", p.statuses(), "up retired")
		l.equal("loud lines", c.logged(zapcore.WarnLevel), `
	0s warn: a unknown>down
	1s warn: b unknown>down
	6m42s error: b down>retired`)
	})
}

// Also if one failure would do.
func TestLastOneIsNotRetiredByOneFailure(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "ppf"), l.backend("b", "pf")
		p := &pool{set: thresholds(1, 1, 1), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(5)
		l.equal("statuses", p.statuses(), "up retired")
		l.at(10)
		// b is recalled and fails
		l.equal("statuses", p.statuses(), "down down")
		l.equal("known", p.known(0), "down 1 1m10s")
		l.equal("known", p.known(1), "down 2 1m10s")
		l.equal("warnings", c.logged(zapcore.WarnLevel), "\n\t5s error: b up>retired\n\t10s warn: a up>down")
		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s healthy: b unknown>up
	5s unhealthy: b up>retired
	5s retired: b up>retired
	10s unhealthy: a up>down
	10s readmitted: b retired>down`)
	})
}

func TestRecall(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "f")
		p := &pool{set: thresholds(1, 1, 3), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(26)
		l.equal("statuses", p.statuses(), "up retired")
		l.at(31)
		a.says("fp")
		l.at(35)
		l.equal("statuses once the last one left", p.statuses(), "down down")
		l.equal("checks", b.checks(), seconds(0, 10, 25, 35))
		l.equal("known", p.known(1), "down 4 1m35s")
		l.at(45)
		l.equal("statuses once another is back", p.statuses(), "up down")
		l.equal("retire_at", l.when(p.targets[1].Info().RetireAt), 95*time.Second)
		l.at(95)
		l.equal("statuses after one more failure", p.statuses(), "up retired")
		l.equal("known", p.known(1), "retired 5 6m35s")
		l.equal("transitions", c.logged(zapcore.InfoLevel), `
	0s info: a unknown>up
	0s warn: b unknown>down
	25s error: b down>retired
	35s warn: a up>down
	35s info: b retired>down
	45s info: a down>up`)
		l.equal("events", c.told(), `
	0s healthy: a unknown>up
	0s unhealthy: b unknown>down
	25s retired: b down>retired
	35s unhealthy: a up>down
	35s readmitted: b retired>down
	45s healthy: a down>up`)
	})
}

// All retired targets of a pool are recalled at once, also by a dial error.
func TestRecallOfMany(t *testing.T) {
	inLab(t, func(l *lab) {
		set := thresholds(1, 1, 1)
		set.ReadmitAfter = 0
		a := l.backend("a", "p")
		backends := []*backend{a}
		for _, address := range []string{"b", "c", "d"} {
			// they fail after a has passed
			backends = append(backends, l.slow(address, "ffp", 100*time.Millisecond))
		}
		p := &pool{set: set, backends: backends}
		l.start(p)
		l.at(1)
		l.equal("statuses", p.statuses(), "up retired retired retired")
		a.says("f")
		l.at(2)
		p.targets[0].CheckSoon()
		l.at(2.1)
		l.equal("statuses", p.statuses(), "down down down down")
		for _, b := range backends[1:] {
			l.equal("checks of "+b.address, b.checks(), seconds(0, 2))
		}
		l.at(62.2)
		l.equal("statuses", p.statuses(), "down up up up")
	})
}

// A retired target has no part in what happens to the others.
func TestProxy1495RetiredBesideHealthy(t *testing.T) {
	var alone, beside []time.Duration
	script := strings.Repeat("p", 20) + "f" + strings.Repeat("p", 20) + "fffp"
	var logsAlone, logsBeside string
	inLab(t, func(l *lab) {
		a := l.backend("a", script)
		c := l.start(&pool{set: defaults(), backends: []*backend{a}, unchecked: []string{"other"}})
		l.at(1000)
		alone, logsAlone = a.checks(), c.logged(zapcore.DebugLevel)
	})
	inLab(t, func(l *lab) {
		a, b := l.backend("a", script), l.backend("b", "f")
		p := &pool{set: thresholds(1, 1, 10), backends: []*backend{a, b}, unchecked: []string{"other"}}
		c := l.start(p)
		l.at(1000)
		l.equal("statuses", p.statuses(), "up retired up")
		beside = a.checks()
		var of []string
		for _, line := range strings.Split(c.logged(zapcore.DebugLevel), "\n") {
			if !strings.Contains(line, ": b ") {
				of = append(of, line)
			}
		}
		logsBeside = strings.Join(of, "\n")
	})
	if !slices.Equal(alone, beside) {
		t.Errorf("checks alone %v, beside a retired one %v", alone, beside)
	}
	if logsAlone != logsBeside {
		t.Errorf("log alone %s, beside a retired one %s", logsAlone, logsBeside)
	}
}

// Rule 6: requests that find nothing in rotation ask for checks.

func TestAskOncePerSecondAndTarget(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b, c := l.backend("a", "f"), l.backend("b", "f"), l.backend("c", "f")
		p := &pool{set: hourly(), backends: []*backend{a, b, c}}
		l.start(p)
		l.at(1)
		for range 70 {
			p.Ask(nil)
			time.Sleep(50 * time.Millisecond)
		}
		l.equal("checks of a", a.checks(), seconds(0, 1, 2, 3, 4))
		l.equal("checks of b: spread from then on", b.checks(), seconds(0, 1, 2.3, 3.3, 4.3))
		l.equal("checks of c", c.checks(), seconds(0, 1, 2.6, 3.6))
		l.at(5.5)
		p.Ask(nil)
		synctest.Wait()
		l.equal("after a pause", a.checks(), seconds(0, 1, 2, 3, 4, 5.5))
		l.equal("all at once", b.checks(), seconds(0, 1, 2.3, 3.3, 4.3, 5.5))
		l.equal("known: asked for, so only shown", p.known(0), "down 1 1h0m0s")
		l.equal("newest result", l.when(p.targets[0].Info().Last.Time), 5500*time.Millisecond)
	})
}

// However often requests ask, each target has its turn.
func TestAskLeavesOutNone(t *testing.T) {
	for _, tc := range []struct {
		targets, least int
		every          time.Duration
	}{
		{targets: 3, every: time.Millisecond, least: 9},
		{targets: 3, every: 70 * time.Millisecond, least: 8},
		{targets: 3, every: 280 * time.Millisecond, least: 8},
		{targets: 10, every: 20 * time.Millisecond, least: 8},
		{targets: 10, every: 85 * time.Millisecond, least: 8},
		{targets: 15, every: 5 * time.Millisecond, least: 6},
		{targets: 25, every: 10 * time.Millisecond, least: 3},
		{targets: 25, every: 300 * time.Millisecond, least: 3},
	} {
		inLab(t, func(l *lab) {
			p := &pool{set: hourly()}
			for i := range tc.targets {
				p.backends = append(p.backends, l.backend(string(rune('a'+i)), "f"))
			}
			l.start(p)
			l.at(1)
			for range 10 * time.Second / tc.every {
				p.Ask(nil)
				time.Sleep(tc.every)
			}
			for _, b := range p.backends {
				if n := len(b.since(1)); n < tc.least || n > 10 {
					t.Errorf("asked every %s: %d checks of %s of %d, want at least %d", tc.every, n, b.address, tc.targets, tc.least)
				}
			}
		})
	}
}

func TestAskTenPerSecondAndGroupInTurn(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: hourly()}
		for i := range 25 {
			p.backends = append(p.backends, l.backend(string(rune('a'+i)), "f"))
		}
		l.start(p)
		var turns []string
		for at := range 8 {
			l.at(1 + float64(at)/2)
			for range 3 {
				p.Ask(nil)
			}
			synctest.Wait()
			turn := ""
			for _, b := range p.backends {
				if len(b.since(1+float64(at)/2)) > 0 {
					turn += b.address
				}
			}
			turns = append(turns, turn)
		}
		l.equal("asked", strings.Join(turns, " | "), "abcdefghij |  | klmnopqrst |  | abcdeuvwxy |  | fghijklmno | ")
	})
}

func TestAskSaysWhetherThereIsAResultToWaitFor(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.slow("a", "f", 200*time.Millisecond)
		p := &pool{set: hourly(), backends: []*backend{a}}
		old := l.start(p)
		l.equal("asked during a scheduled check", p.Ask(nil), true)
		l.at(1)
		changes := p.changes()
		l.equal("asked", p.Ask(nil), true)
		l.equal("asked again", p.Ask(nil), true)
		l.at(1.1)
		l.equal("asked during the check", p.Ask(nil), true)
		l.equal("changes during the check", p.changes()-changes, 0)
		l.at(1.2)
		l.equal("changes told at its end", p.changes()-changes, 1)
		l.equal("asked too soon", p.Ask(nil), false)
		a.says("p")
		l.at(2)
		l.equal("asked a second later", p.Ask(nil), true)
		l.at(2.2)
		l.equal("statuses", p.statuses(), "up")
		l.equal("checks", a.checks(), seconds(0, 1, 2))

		// an older config asks for nothing
		l.start(&pool{set: hourly(), backends: []*backend{l.slow("a", "f", time.Second)}})
		l.at(4)
		l.equal("asked in an older config", p.Ask(nil), false)
		l.at(5)
		l.equal("checks", a.checks(), seconds(0, 1, 2))
		old.close()
	})
}

func TestAskWithoutTargets(t *testing.T) {
	inLab(t, func(l *lab) {
		p, q := &pool{set: defaults()}, &pool{name: "q", set: defaults(), unchecked: []string{"a"}}
		l.start(p, q)
		l.equal("asked an empty pool", p.Ask(nil), false)
		l.equal("asked a pool without checks", q.Ask(nil), false)
		_, ok := p.NextCheck()
		l.equal("next check of an empty pool", ok, false)
		_, ok = q.NextCheck()
		l.equal("next check of a pool without checks", ok, false)
		l.equal("statuses", q.statuses(), "up")
	})
}

// Rule 7: one check at a time, spread by jitter.

// A check that takes longer than the interval is not overtaken by another.
func TestT9812OneCheckAtATime(t *testing.T) {
	inLab(t, func(l *lab) {
		set := defaults()
		set.Interval = 300 * time.Millisecond
		b := l.slow("b", "p", 3*time.Second)
		p := &pool{set: set, backends: []*backend{b}}
		l.start(p)
		for range 200 { // also when asked
			time.Sleep(90 * time.Millisecond)
			p.Ask(nil)
			p.targets[0].CheckSoon()
			p.targets[0].CheckNow()
		}
		l.equal("most at a time", b.atOnce(), 1)
		if n := len(b.checks()); n < 6 || n > 7 {
			t.Errorf("%d checks of 3s in 18s", n)
		}
	})
	inLab(t, func(l *lab) {
		set := defaults()
		set.Interval = 300 * time.Millisecond
		b := l.slow("b", "p", 3*time.Second)
		l.start(&pool{set: set, backends: []*backend{b}})
		l.at(10)
		l.equal("checks", b.checks(), seconds(0, 3.3, 6.6, 9.9))
	})
}

func TestJitter(t *testing.T) {
	tests := []struct {
		name   string
		set    Settings
		script string
		// round is which of the delays, the first one is 0, and from, to are
		// what they are spread over.
		round    int
		from, to float64
	}{
		{"first delay after a pass", withJitter(10 * time.Second), "p", 0, 0, 10},
		{"second delay after a pass", withJitter(10 * time.Second), "p", 1, 9, 11},
		{"later delay after a pass", withJitter(10 * time.Second), "p", 5, 9, 11},
		{"first delay after a failure", withJitter(10 * time.Second), "f", 0, 13.5, 16.5},
		{"second delay after a failure", withJitter(10 * time.Second), "f", 1, 18, 22},
		{"first delay after a first pass later", withJitter(10 * time.Second), "ffp", 2, 0, 10},
		{"first delay after another pass", withJitter(10 * time.Second), "pffp", 3, 9, 11},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				p := &pool{set: test.set}
				for range 250 {
					// a name of its own
					address := strings.Repeat("x", len(p.backends)+1)
					p.backends = append(p.backends, l.backend(address, test.script))
				}
				l.start(p)
				l.at(100)
				var delays []float64
				for _, b := range p.backends {
					checks := b.checks()
					delays = append(delays, (checks[test.round+1] - checks[test.round]).Seconds())
				}
				least, most := slices.Min(delays), slices.Max(delays)
				if least < test.from || most > test.to {
					t.Errorf("delays are from %g to %g, not within %g and %g", least, most, test.from, test.to)
				}
				tenth := (test.to - test.from) / 10
				if least > test.from+tenth || most < test.to-tenth {
					t.Errorf("delays are from %g to %g, not spread from %g to %g", least, most, test.from, test.to)
				}
			})
		})
	}
}

// 50 targets with the same interval are checked at different times
// after five rounds.
func TestE4132Spread(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: new(Config).Settings()}
		for i := range 50 {
			p.backends = append(p.backends, l.backend(string(rune('A'+i)), "p"))
		}
		l.start(p)
		l.at(30)
		var tenths [10]int
		for _, b := range p.backends {
			checks := b.checks()
			if checks[0] != 0 {
				t.Errorf("first check of %s after %s", b.address, checks[0])
			}
			if len(checks) < 5 {
				t.Fatalf("%d checks of %s in 30s", len(checks), b.address)
			}
			last := checks[len(checks)-1] % (5 * time.Second)
			tenths[last/(500*time.Millisecond)]++
		}
		used := 0
		for _, n := range tenths {
			if n > 0 {
				used++
			}
			if n > 22 { // 5 are expected
				t.Errorf("checks per tenth of the interval: %v", tenths)
			}
		}
		if used < 6 {
			t.Errorf("checks per tenth of the interval: %v", tenths)
		}
	})
}

// First checks start at once, at most 1,000 at a time.
func TestFirstChecks(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: new(Config).Settings()}
		for i := range 3000 {
			p.backends = append(p.backends, l.slow(string(rune(0x10000+i)), "p", time.Second))
		}
		l.start(p)
		count := func() map[time.Duration]int {
			started := make(map[time.Duration]int)
			for _, b := range p.backends {
				if checks := b.checks(); len(checks) > 0 {
					started[checks[0]]++
				}
			}
			return started
		}
		l.equal("first checks", count(), map[time.Duration]int{0: 1000})
		l.at(1)
		l.equal("first checks", count(), map[time.Duration]int{0: 1000, time.Second: 1000})
		l.equal("up", strings.Count(" "+p.statuses(), " up"), 1000)
		l.at(3)
		l.equal("first checks", count(), map[time.Duration]int{0: 1000, time.Second: 1000, 2 * time.Second: 1000})
		l.equal("up", strings.Count(" "+p.statuses(), " up"), 3000)
	})
}

// A reload amid first checks leaves none out, and keeps the limit.
func TestFirstChecksAndReload(t *testing.T) {
	inLab(t, func(l *lab) {
		build := func() *pool {
			p := &pool{set: defaults()}
			for i := range 2500 {
				b := l.slow(string(rune(0x10000+i)), "p", time.Second)
				p.backends = append(p.backends, b)
			}
			return p
		}
		l.start(build())
		l.at(1.5) // the second thousand are under way
		p := build()
		l.reload(p)
		l.equal("up", strings.Count(" "+p.statuses(), " up"), 1000)
		l.locked(func(r *Registry) { l.equal("under way", r.starting, 1000) })
		l.at(2.5)
		l.equal("up", strings.Count(" "+p.statuses(), " up"), 2000)
		l.at(3.5)
		l.equal("up", strings.Count(" "+p.statuses(), " up"), 2500)
		for i, b := range p.backends {
			if n := len(b.checks()); i >= 1000 && n != 1 {
				t.Fatalf("target %d: %d first checks", i, n)
			}
		}
	})
}

func TestNextCheck(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "f"), l.backend("b", "ff")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		next := func() time.Duration {
			at, ok := p.NextCheck()
			l.equal("is there a next check", ok, !at.IsZero())
			return l.when(at)
		}
		c := l.provision(p)
		l.equal("next check before the start", next(), time.Duration(-1))
		c.gen.Start()
		l.at(1)
		l.equal("next check", next(), 10*time.Second)
		p.targets[0].CheckNow()
		l.at(3)
		l.equal("next check", next(), 10*time.Second)
		l.at(12)
		l.equal("next check", next(), 25*time.Second)
		b.says("p")
		p.targets[1].CheckNow()
		l.at(14)
		l.equal("next check", next(), 17*time.Second)
	})
}

// With no targets checked, nothing runs: idle targets cost no goroutines.
func TestIdleTargetsCostNoGoroutines(t *testing.T) {
	inLab(t, func(l *lab) {
		p := &pool{set: new(Config).Settings()}
		for i := range 10_000 {
			p.backends = append(p.backends, l.backend(string(rune(0x10000+i)), "p"))
		}
		l.start(p)
		l.equal("goroutines", goroutines(), 0)
		l.equal("up", strings.Count(p.statuses(), "up"), 10_000)
	})
}

// What is asked at random is never answered by two checks at a time or by a
// check before its time.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		inLab(t, func(l *lab) {
			var p *pool
			backends := make([]*backend, 3)
			for i := range backends {
				backends[i] = l.slow(string(rune('a'+i)), "p", time.Duration(random.IntN(3000))*time.Millisecond)
			}
			reload := func() {
				p = &pool{set: thresholds(1+random.IntN(2), 1+random.IntN(2), random.IntN(4)), backends: backends}
				l.reload(p)
			}
			reload()
			for range 300 {
				time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond)
				target := p.targets[random.IntN(3)]
				switch random.IntN(12) {
				case 0:
					reload()
				case 1, 2:
					p.Ask(nil)
				case 3, 4:
					target.CheckSoon()
				case 5:
					target.CheckNow()
				case 6:
					target.Readmit()
				default:
					backends[random.IntN(3)].says(string("pfffv"[random.IntN(5)]))
				}
				synctest.Wait()
				checkRules(l, p)
			}
			for _, b := range backends {
				l.equal("most at a time", b.atOnce(), 1)
			}
		})
	}
}
