package healthcheck

import (
	"testing"
	"time"
)

func TestForecast(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(times []time.Time) (list []time.Duration) {
		for _, at := range times {
			list = append(list, at.Sub(from))
		}
		return list
	}
	for _, tc := range []struct {
		name    string
		script  string // p passed, f failed
		most    int
		others  bool
		want    []time.Duration
		retired bool
	}{
		{"up", "p", 20, true, seconds(0, 10, 25, 45, 70, 100, 135, 175, 220, 270), true},
		{"down", "ff", 20, true, seconds(0, 20, 45, 75, 110, 150, 195, 245), true},
		{"no others", "fffffffff", 3, false, seconds(0, 60, 120), false},
		{"unknown", "", 2, true, seconds(0, 10), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s State
			for _, r := range tc.script {
				s.Apply(defaults(), Result{Pass: r == 'p', Others: tc.others})
			}
			before := s
			checks, retired := s.Forecast(defaults(), from, tc.most, tc.others)
			if got := after(checks); len(got) != len(tc.want) || retired != tc.retired {
				t.Fatalf("%v, retired %t", got, retired)
			}
			for i, at := range after(checks) {
				if at != tc.want[i] {
					t.Errorf("check %d at %s, want %s", i, at, tc.want[i])
				}
			}
			if s != before {
				t.Error("the forecast has changed the state")
			}
		})
	}
}

// The last results are remembered, newest first, over reloads too.
func TestExplain(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "ppppppppppppppppppppppppppppaf"), l.backend("b", "p")
		p := func() *pool { return &pool{set: defaults(), backends: []*backend{a, b}} }
		l.start(p())
		l.at(136)
		next := p()
		l.reload(next)
		l.at(151)
		e := next.targets[0].Explain()
		l.equal("remembered", len(e.History), historyMost)
		l.equal("newest", e.History[0].Reason, "connection refused")
		l.equal("before", e.History[1].Reason, "status 503")
		l.equal("oldest", l.when(e.History[historyMost-1].Time), 50*time.Second)
		l.equal("next", l.when(e.Forecast[0]), 165*time.Second)
		l.equal("retired", l.when(e.RetireAt), 410*time.Second)
		next.targets[0].CheckNow()
		l.at(152)
		newest := next.targets[0].Explain().History[0]
		l.equal("an extra check that does not count", []bool{newest.Extra, newest.Counted}, []bool{true, false})
	})
}
