package healthcheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// tallied returns the checks of a target by result, and its transitions.
func (p *pool) tallied(i int) string {
	tally := p.targets[i].Tally()
	list := []string{fmt.Sprint(tally.Passed, tally.Failed, tally.Void)}
	slices.SortFunc(tally.Transitions, func(a, b Transitions) int {
		return strings.Compare(a.From+a.To, b.From+b.To)
	})
	for _, way := range tally.Transitions {
		list = append(list, fmt.Sprintf("%s>%s %d", way.From, way.To, way.Count))
	}
	return strings.Join(list, ", ")
}

func TestTally(t *testing.T) {
	inLab(t, func(l *lab) {
		// checked at 0, 5 and 10, down then, at 20 without a result, and at
		// 25, retired then
		a, b := l.slow("a", "ppfvf", 30*time.Millisecond), l.backend("b", "p")
		p := &pool{set: thresholds(1, 1, 2), backends: []*backend{a, b}}
		l.start(p)
		l.at(12)
		l.equal("tally", p.tallied(0), "2 1 0, unknown>up 1, up>down 1")
		l.at(60)
		l.equal("tally", p.tallied(0), "2 2 1, down>retired 1, unknown>up 1, up>down 1")
		p.targets[0].Readmit()
		l.at(61)
		l.equal("tally", p.tallied(0), "2 3 1, down>retired 1, retired>down 1, unknown>up 1, up>down 1")
		tally := p.targets[0].Tally()
		var want [len(DurationBounds) + 1]uint64
		want[4] = tally.Checks() // from 25 to 50 ms
		l.equal("durations", tally.Durations, want)
		l.equal("all of them", tally.Took, 6*30*time.Millisecond)
	})
}

// The bounds belong to the places below them, and one place is above all.
func TestTallyDurations(t *testing.T) {
	var tally Tally
	for _, bound := range DurationBounds {
		tally.checked(Report{Duration: bound}, false)
	}
	tally.checked(Report{Duration: time.Hour}, false)
	for i, n := range tally.Durations {
		if n != 1 {
			t.Errorf("place %d has %d", i, n)
		}
	}
}

// A check that timed out while requests were answered is void, an extra one
// that failed while the target was down is not.
func TestTallyOfWhatDoesNotCount(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.slow("a", "pt", time.Second), l.backend("b", "p")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		l.start(p)
		l.at(6.9) // the second check is under way since 6
		p.targets[0].Answered(time.Now())
		l.at(8)
		l.equal("passed over", p.tallied(0), "1 0 1, unknown>up 1")
		l.at(13)
		l.equal("down", p.tallied(0), "1 1 1, unknown>up 1, up>down 1")
		p.targets[0].CheckNow()
		l.at(15)
		l.equal("only shown", p.tallied(0), "1 2 1, unknown>up 1, up>down 1")
	})
}

func TestTallyOfEjectionsAndModes(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "p")
		p := &pool{set: hourly(), backends: []*backend{a, b}}
		l.start(p)
		l.at(1)
		p.targets[0].Eject("latency", failWindow)
		l.at(7300) // proved
		l.equal("tally", p.tallied(0)[len("n n n"):], ", ejected>up 1, unknown>up 1, up>ejected 1")
		p.targets[0].SetMode(Maint, 0)
		p.targets[0].SetMode(Ready, 0)
		l.at(7301)
		l.equal("tally", p.tallied(0)[len("n n n"):], ", ejected>up 1, unknown>up 2, up>ejected 1, up>unknown 1")
		p.targets[1].SetMode(Drain, 0)
		l.equal("tally", p.tallied(1)[len("n n n"):], ", unknown>up 1")
	})
}

// The tally goes with pool and address over reloads, also to another check and
// back from a config that could not be loaded.
func TestTallyOverReloads(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.backend("a", "p")
		build := func(name, check string) *pool {
			return &pool{name: name, set: defaults(), check: check, backends: []*backend{a}}
		}
		l.start(build("one", "/"))
		l.at(6)
		p := build("one", "/")
		l.reload(p)
		l.equal("same", p.tallied(0), "2 0 0, unknown>up 1")
		q := build("one", "/other")
		l.reload(q)
		l.equal("another check", q.tallied(0), "3 0 0, unknown>up 2")
		failed := l.start(build("one", "/third"))
		failed.close()
		l.equal("undone", q.tallied(0), "4 0 0, unknown>up 3")
		l.at(11.5)
		l.equal("and goes on", q.tallied(0), "5 0 0, unknown>up 3")
		r := build("two", "/other")
		l.reload(r)
		l.equal("another pool", r.tallied(0), "0 0 0")
		l.reload(build("none", "/none"))
		s := build("two", "/other")
		l.reload(s)
		l.at(11.5)
		l.equal("gone in between", s.tallied(0), "1 0 0, unknown>up 1")
	})
}
