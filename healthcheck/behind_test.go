package healthcheck

import "testing"

// Requests that a reload leaves behind hear of it when what they wait for
// leaves rotation, also if the newer config checks it in another way.
func TestRequestsLeftBehind(t *testing.T) {
	for name, check := range map[string]string{"the same check": "", "another check": "other"} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				a, b := l.backend("a", "pppf"), l.backend("b", "p")
				first := &pool{set: defaults(), backends: []*backend{a, b}}
				second := &pool{set: defaults(), backends: []*backend{a, b}, check: check}
				third := &pool{set: defaults(), backends: []*backend{a, b}, check: check}
				l.start(first)
				l.at(1)
				first.wait(true)
				l.reload(second)
				l.at(2)
				l.reload(third) // nobody waits in the second one
				l.at(20)
				l.equal("told in the first", first.left(), "a (shut)")
				l.equal("told in the second", second.left(), "")
				l.equal("told in the third", third.left(), "a (shut)")
				l.equal("status as the first sees it", first.targets[0].Status(), Down)

				first.wait(false)
				l.at(120)
				l.locked(func(r *Registry) { l.equal("left behind", len(r.behind), 0) })
			})
		})
	}
}

// What no newer config has is remembered until the next reload after the last
// request.
func TestRequestsLeftBehindAtWhatIsGone(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		first := &pool{set: defaults(), backends: []*backend{a, b}}
		only := func() *pool { return &pool{set: defaults(), backends: []*backend{b}} }
		l.start(first)
		first.wait(true)
		l.at(1)
		l.reload(only())
		l.at(2)
		l.reload(only())
		l.locked(func(r *Registry) { l.equal("left behind", len(r.behind) > 0, true) })
		first.wait(false)
		l.at(3)
		l.reload(only())
		l.locked(func(r *Registry) { l.equal("left behind", len(r.behind), 0) })
	})
}

// A request may begin to wait in a closed group.
func TestRequestsThatComeLate(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "ppf"), l.backend("b", "p")
		pools := func() *pool { return &pool{set: defaults(), backends: []*backend{a, b}} }
		first := pools()
		l.start(first)
		l.at(1)
		l.reload(pools())
		first.wait(true)
		first.targets[0].Stay()
		first.targets[0].Stay()
		l.at(20)
		l.equal("told in the first", first.left(), "a (shut)")
		first.wait(false)
		l.at(40)
		l.locked(func(r *Registry) { l.equal("left behind", len(r.behind), 0) })
	})
}

// A request that an older config has left behind may ask for a check.
func TestSilenceLeftBehind(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.backend("a", "p")
		first := &pool{set: hourly(), backends: []*backend{a}}
		l.start(first)
		l.at(1)
		old := first.targets[0]
		l.reload(&pool{set: hourly(), backends: []*backend{a}})
		l.at(10)
		old.CheckSilent()
		l.at(11)
		l.equal("checks", a.checks(), seconds(0, 10))
	})
}
