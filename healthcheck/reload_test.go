package healthcheck

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

func TestAdoption(t *testing.T) {
	b := func(l *lab) []*backend { return []*backend{l.backend("b", "f")} }
	faster := defaults()
	faster.Interval, faster.Increment, faster.MaxFailures = time.Second, time.Second, 4
	tests := []struct {
		name   string
		old    []*pool
		new    *pool
		reload float64
		before string // known after the reload
		want   []time.Duration
		after  string // known at 46s
	}{
		{
			name: "same", old: []*pool{{set: defaults()}}, new: &pool{set: defaults()}, reload: 30,
			before: "down 3 45s", want: seconds(45), after: "down 4 1m10s",
		},
		{
			name: "pool renamed", old: []*pool{{name: "old", set: defaults()}}, new: &pool{name: "new", set: defaults()}, reload: 30,
			before: "down 3 45s", want: seconds(45), after: "down 4 1m10s",
		},
		{
			name: "pool moved to another server", old: []*pool{{server: "s", set: defaults()}}, new: &pool{server: "t", set: defaults()}, reload: 30,
			before: "down 3 45s", want: seconds(45), after: "down 4 1m10s",
		},
		{
			name: "another check", old: []*pool{{set: defaults()}}, new: &pool{set: defaults(), check: "/up"}, reload: 30,
			before: "down 1 40s", want: seconds(30, 40), after: "down 2 55s",
		},
		{
			name: "another transport", old: []*pool{{set: defaults()}}, new: &pool{set: defaults(), transport: "tls"}, reload: 30,
			before: "down 1 40s", want: seconds(30, 40), after: "down 2 55s",
		},
		{
			name: "another check in another pool", old: []*pool{{name: "old", check: "/up", set: defaults()}}, new: &pool{name: "new", set: defaults()}, reload: 30,
			before: "down 1 40s", want: seconds(30, 40), after: "down 2 55s",
		},
		{
			name: "thresholds and delays apply from the next result", old: []*pool{{set: defaults()}}, new: &pool{set: faster}, reload: 30,
			before: "down 3 45s", want: seconds(45), after: "retired 4 5m45s",
		},
		{
			name: "after a retirement", old: []*pool{{set: thresholds(1, 1, 2)}}, new: &pool{set: thresholds(1, 1, 2)}, reload: 30,
			before: "retired 2 5m10s", want: seconds(), after: "retired 2 5m10s",
		},
		{
			name: "the maximum switched off after a retirement", old: []*pool{{set: thresholds(1, 1, 2)}}, new: &pool{set: thresholds(1, 1, 0)}, reload: 30,
			before: "retired 2 5m10s", want: seconds(), after: "retired 2 5m10s",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				for _, p := range test.old {
					p.backends, p.unchecked = b(l), []string{"other"}
				}
				l.start(test.old...)
				l.at(test.reload)
				test.new.backends, test.new.unchecked = b(l), []string{"other"}
				c := l.reload(test.new)
				l.equal("known after the reload", test.new.known(0), test.before)
				l.at(46)
				l.equal("known later", test.new.known(0), test.after)
				l.equal("checks", test.new.backends[0].checks(), test.want)
				if !strings.HasPrefix(test.after, "retired") && len(test.want) == 1 {
					l.equal("transitions", c.logged(zapcore.InfoLevel), "")
				}
			})
		})
	}
}

// The interval of a target that is up changes after its next check.
func TestAdoptionWhileUp(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.backend("a", "p")
		l.start(&pool{set: defaults(), backends: []*backend{a}})
		l.at(11)
		l.reload(&pool{set: hourly(), backends: []*backend{a}})
		l.at(3615)
		l.equal("checks", a.checks(), seconds(0, 5, 10, 15, 3615))
	})
}

// A pool's own target goes before that of another pool with the same address,
// and two pools can take over from one.
func TestAdoptionAmongPools(t *testing.T) {
	inLab(t, func(l *lab) {
		up, down := l.backend("b", "p"), l.backend("b", "f")
		l.start(
			&pool{name: "one", set: defaults(), backends: []*backend{up}},
			&pool{name: "two", set: defaults(), backends: []*backend{down}},
		)
		l.at(12)
		pools := []*pool{
			{name: "one", set: defaults(), backends: []*backend{down}},
			{name: "two", set: defaults(), backends: []*backend{up}},
		}
		l.reload(pools...)
		l.equal("known", pools[0].known(0), "up 0 15s")
		l.equal("known", pools[1].known(0), "down 2 25s")
		l.at(26)
		l.equal("known", pools[0].known(0), "down 2 40s")
		l.equal("known", pools[1].known(0), "up 0 30s")
	})
	inLab(t, func(l *lab) {
		b := l.backend("b", "f")
		l.start(&pool{name: "one", set: defaults(), backends: []*backend{b}})
		l.at(12)
		pools := []*pool{
			{name: "one", set: defaults(), backends: []*backend{l.backend("b", "f")}},
			{name: "two", set: defaults(), backends: []*backend{l.backend("b", "p")}},
			{name: "three", set: defaults(), backends: []*backend{l.backend("b", "f")}},
		}
		l.reload(pools...)
		for _, p := range pools {
			l.equal("known of "+p.name, p.known(0), "down 2 25s")
		}
		l.at(26)
		for i, want := range []string{"down 3 45s", "up 0 30s", "down 3 45s"} {
			l.equal("known", pools[i].known(0), want)
			l.equal("checks", pools[i].backends[0].checks(), seconds(25))
		}
	})
}

// A retired target that becomes the last of its pool by a reload is recalled.
func TestReloadRecalls(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.backend("b", "f")
		set := thresholds(1, 1, 2)
		l.start(&pool{set: set, backends: []*backend{b, l.backend("a", "p")}})
		l.at(30)
		p := &pool{set: set, backends: []*backend{b}}
		c := l.reload(p)
		l.equal("known", p.known(0), "down 3 1m30s")
		l.equal("checks", b.checks(), seconds(0, 10, 30))
		l.equal("log", c.logged(zapcore.InfoLevel), "\n\t30s info: b retired>down")
	})
}

func TestNames(t *testing.T) {
	type named struct{ name, server, want string }
	tests := []struct {
		name  string
		pools []named
	}{
		{"different", []named{{"a", "s", "a"}, {"b", "s", "b"}}},
		{"in order of creation", []named{{"a", "s", "a"}, {"a", "s", "a#2"}, {"b", "s", "b"}, {"a", "s", "a#3"}}},
		{"in order of server", []named{{"a", "t", "a#3"}, {"a", "s", "a"}, {"a", "u", "a#4"}, {"a", "s", "a#2"}}},
		{"a name that looks like one of ours", []named{{"a", "s", "a"}, {"a", "s", "a#3"}, {"a#2", "s", "a#2"}, {"a", "s", "a#4"}}},
		{"the same, first", []named{{"a#2", "s", "a#2"}, {"a#2", "s", "a#2#2"}, {"a", "s", "a"}, {"a", "s", "a#3"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				var pools []*pool
				var want []string
				for _, n := range test.pools {
					pools = append(pools, &pool{name: n.name, server: n.server, set: defaults(), backends: []*backend{l.backend("b", "p")}})
					want = append(want, n.want)
				}
				c := l.provision(pools...)
				for _, p := range pools {
					l.equal("names before the start", p.named, []string{})
				}
				c.gen.Start()
				c.gen.Start() // once is enough
				var got []string
				for _, p := range pools {
					l.equal("names given", len(p.named), 1)
					got = append(got, p.named...)
				}
				l.equal("names", got, want)
				l.equal("current", len(l.registry.Current()), len(pools))
				synctest.Wait()
				for _, entry := range c.logs.All() {
					if !slices.Contains(want, entry.ContextMap()["pool"].(string)) {
						t.Errorf("logged pool %v", entry.ContextMap()["pool"])
					}
				}
			})
		})
	}
}

// Pools of the same name keep their states apart over reloads, in whatever
// order their servers are provisioned.
func TestNamesAndReload(t *testing.T) {
	inLab(t, func(l *lab) {
		up, down := l.backend("b", "p"), l.backend("b", "f")
		build := func(server string, b *backend) *pool {
			return &pool{name: "a", server: server, set: defaults(), backends: []*backend{b}}
		}
		l.start(build("s", up), build("t", down))
		l.at(12)
		s, u := build("s", up), build("t", down)
		l.reload(u, s)
		l.equal("names", []any{s.named, u.named}, []any{[]string{"a"}, []string{"a#2"}})
		l.equal("known", s.known(0), "up 0 15s")
		l.equal("known", u.known(0), "down 2 25s")
	})
}

// Nothing is checked before the config has started, and nothing is known but
// from an older one, whose statuses are followed.
func TestBeforeTheStart(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "ppfffp")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		l.start(p)
		l.at(7)
		a2, b2, c2 := l.backend("a", "p"), l.backend("b", "p"), l.backend("c", "p")
		q := &pool{set: thresholds(3, 1, 10), backends: []*backend{a2, b2, c2}}
		r := &pool{name: "renamed", set: defaults(), backends: []*backend{b2}}
		next := l.provision(q, r)
		for _, step := range []struct {
			at   float64
			want string
		}{
			{7, "up up unknown"}, {10, "up down unknown"}, {60, "up up unknown"},
		} {
			l.at(step.at)
			l.equal("statuses", q.statuses(), step.want)
			l.equal("status in the renamed pool", r.statuses(), strings.Fields(step.want)[1])
			q.Ask(nil)
			q.targets[0].CheckSoon()
			q.targets[1].CheckNow()
			q.targets[1].Readmit()
		}
		l.equal("checks before the start", []int{len(a2.checks()), len(b2.checks()), len(c2.checks())}, []int{0, 0, 0})
		l.equal("log before the start", next.logged(zapcore.DebugLevel), "")
		l.equal("events before the start", next.told(), "")
		if q.changes() == 0 || r.changes() == 0 {
			t.Error("owners of a config that has not started are not told of changes")
		}
		next.gen.Start()
		synctest.Wait()
		l.equal("statuses", q.statuses(), "up up up")
		l.equal("checks at the start", c2.checks(), seconds(60))
	})
}

// A config that does not start leaves everything as it was.
func TestT11836FailureBeforeTheStart(t *testing.T) {
	var alone []time.Duration
	inLab(t, func(l *lab) {
		b := l.backend("b", "f")
		l.start(&pool{set: defaults(), backends: []*backend{b}})
		l.at(300)
		alone = b.checks()
	})
	inLab(t, func(l *lab) {
		b, other := l.backend("b", "f"), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{b}}
		l.start(p)
		for at := 1.; at < 300; at += 20 {
			l.at(at)
			c := l.provision(&pool{set: thresholds(1, 1, 1), backends: []*backend{other}}, &pool{name: "n", set: defaults(), backends: []*backend{other}})
			l.at(at + 10)
			c.close()
			c.gen.Start() // too late
		}
		l.at(300)
		l.equal("checks", b.checks(), alone)
		l.equal("checks of what did not start", other.checks(), seconds())
		l.equal("current", slices.Contains(l.registry.Current(), p.Group), true)
	})
}

// From the start of a newer config on an older one only follows.
func TestAfterTheStartOfANewerOne(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "f")
		p := &pool{set: thresholds(1, 1, 3), backends: []*backend{a, b}}
		old := l.start(p)
		l.at(12)
		checks, log, events := l.checks(), old.logged(zapcore.DebugLevel), old.told()
		a2, b2 := l.backend("a", "p"), l.backend("b", "fpf")
		q := &pool{set: thresholds(1, 1, 3), backends: []*backend{a2, b2}}
		l.start(q)
		for _, step := range []struct {
			at   float64
			want string
		}{
			{12, "up down"}, {25, "up retired"}, {325, "up up"}, {330, "up down"},
		} {
			l.at(step.at)
			l.equal("statuses", q.statuses(), step.want)
			l.equal("statuses in the older config", p.statuses(), step.want)
			changes := p.changes()
			p.Ask(nil)
			p.targets[0].CheckSoon()
			p.targets[1].CheckNow()
			p.targets[1].Readmit()
			synctest.Wait()
			l.equal("changes by an older config", p.changes(), changes)
		}
		l.equal("checks of the older config", len(a.checks())+len(b.checks()), checks)
		l.equal("log of the older config", old.logged(zapcore.DebugLevel), log)
		l.equal("events of the older config", old.told(), events)
		old.close()
		l.at(400)
		l.equal("checks go on", b2.since(331), seconds(340, 355))
	})
}

// A config that started and is closed while an older one lives is undone.
func TestUndo(t *testing.T) {
	tests := []struct {
		name string
		pool *pool // of the newer config
		// what b says to it, and the statuses then
		script, want string
	}{
		{"same", &pool{set: thresholds(1, 1, 2)}, "p", "retired up"},
		{"renamed", &pool{name: "new", set: thresholds(1, 1, 2)}, "p", "retired up"},
		{"another check", &pool{check: "/up", set: thresholds(1, 1, 2)}, "p", "retired up"},
		{"back and forth", &pool{set: thresholds(1, 1, 2)}, "pf", "down down"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				a, b := l.backend("a", "p"), l.backend("b", "f")
				p := &pool{set: defaults(), backends: []*backend{a, b}}
				old := l.start(p)
				l.at(26)
				info := p.targets[1].Info()
				log := old.logged(zapcore.DebugLevel)

				// it learns the opposite
				q := test.pool
				q.backends = []*backend{l.backend("a", "f"), l.backend("b", test.script)}
				c := l.start(q)
				q.targets[1].CheckNow()
				l.at(28)
				q.targets[0].CheckSoon()
				l.at(44)
				l.equal("statuses meanwhile", q.statuses(), test.want)
				c.close()
				l.equal("statuses after the undoing", p.statuses(), "up down")
				l.equal("info after the undoing", p.targets[1].Info(), info)
				l.equal("log of the older config", old.logged(zapcore.DebugLevel)[:len(log)], log)
				l.at(75)
				// the ladder goes on; what was due meanwhile runs at once
				l.equal("checks", b.since(20), seconds(25, 45, 70))
				l.equal("checks", a.since(20), seconds(20, 25, 44, 49, 54, 59, 64, 69, 74))
				l.equal("current", slices.Contains(l.registry.Current(), p.Group), true)
				l.equal("warnings", old.logged(zapcore.WarnLevel), "\n\t0s warn: b unknown>down")
			})
		})
	}
}

// A check that the start of the newer config cut short runs at once when that
// config is undone.
func TestUndoDuringChecks(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.slow("b", "f", 4*time.Second)
		p := &pool{set: defaults(), backends: []*backend{b}}
		l.start(p)
		l.at(16) // the second check is under way since 14
		other := l.slow("b", "p", 4*time.Second)
		c := l.start(&pool{set: defaults(), backends: []*backend{other}})
		l.at(17)
		c.close()
		l.at(22)
		l.equal("checks", b.checks(), seconds(0, 14, 17))
		l.equal("known", p.known(0), "down 2 36s")
		l.equal("cut short", []int{b.cut, other.cut}, []int{1, 1})
	})
}

// Only the newest of three configs is undone, and the middle one can end
// before.
func TestUndoAmongThree(t *testing.T) {
	for _, middle := range []bool{false, true} {
		inLab(t, func(l *lab) {
			build := func(script string) *pool {
				return &pool{set: defaults(), backends: []*backend{l.backend("b", script)}}
			}
			p, q, r := build("f"), build("f"), build("p")
			l.start(p)
			l.at(12)
			second := l.start(q)
			l.at(26)
			third := l.start(r)
			l.at(46)
			l.equal("statuses", p.statuses()+q.statuses()+r.statuses(), "upupup")
			if middle {
				second.close()
				third.close()
				l.at(52)
				l.equal("checks by the oldest", p.backends[0].since(26), seconds(50))
				return
			}
			third.close()
			// the check that was due at 45 runs at once
			l.equal("known", q.known(0), "down 4 1m11s")
			l.at(47)
			l.equal("checks by the middle one", q.backends[0].checks(), seconds(25, 46))
			l.equal("checks by the oldest", p.backends[0].checks(), seconds(0, 10))
		})
	}
}

// Twenty reloads cost no check more, and leave nothing behind.
func TestTwentyReloads(t *testing.T) {
	run := func(reloads bool) (checks [2][]time.Duration) {
		inLab(t, func(l *lab) {
			a, b := l.backend("a", "p"), l.backend("b", "f")
			build := func() *pool { return &pool{set: defaults(), backends: []*backend{a, b}} }
			l.start(build())
			l.at(7)
			for i := range 20 {
				l.at(7 + float64(i)*30)
				if reloads {
					l.reload(build())
				}
			}
			l.equal("goroutines after the reloads", goroutines(), 0)
			l.at(1000)
			l.locked(func(r *Registry) {
				l.equal("records", len(r.records), 2)
				l.equal("generations", len(r.generations), 1)
				for _, rec := range r.records {
					l.equal("followers", len(rec.followers), 1)
				}
			})
			checks = [2][]time.Duration{a.checks(), b.checks()}
		})
		return checks
	}
	without, with := run(false), run(true)
	for i := range with {
		if !slices.Equal(with[i], without[i]) {
			t.Errorf("checks with reloads: %v\nwithout: %v", with[i], without[i])
		}
	}
}

// A target that is removed is forgotten once the older config is closed.
func TestRemovedTarget(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "f")
		l.start(&pool{set: defaults(), backends: []*backend{a, b}})
		l.at(12)
		l.reload(&pool{set: defaults(), backends: []*backend{a}})
		l.locked(func(r *Registry) { l.equal("records", len(r.records), 1) })
		l.at(100)
		l.equal("checks of the removed one", b.checks(), seconds(0, 10))
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		l.reload(p)
		l.equal("known when it is back", p.known(1), "down 1 1m50s")
	})
}

// A target that an older config retired for good is readmitted by a newer one
// that readmits.
func TestReadmissionAfterRetirementForGood(t *testing.T) {
	inLab(t, func(l *lab) {
		never := thresholds(1, 1, 2)
		never.ReadmitAfter = 0
		b := l.backend("b", "fff")
		l.start(&pool{set: never, backends: []*backend{b}, unchecked: []string{"other"}})
		l.at(60)
		p := &pool{set: thresholds(1, 1, 2), backends: []*backend{b}, unchecked: []string{"other"}}
		l.reload(p)
		l.equal("known", p.known(0), "retired 2 6m0s")
		l.at(361)
		l.equal("checks", b.checks(), seconds(0, 10, 360))
	})
}
