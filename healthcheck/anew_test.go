package healthcheck

import (
	"testing"
	"time"
)

// A check that reloads begin anew again and again has timed out once it has
// gone on for health_timeout and requests have waited in vain for as long.
func TestBegunAnew(t *testing.T) {
	tests := []struct {
		name string
		// waits is how long requests have waited at 5 s, when the check begins,
		// -1 if none do; answered and failed are when one was, -1 for never.
		waits            time.Duration
		answered, failed float64
		want             string // known at 12 s
		left             string
	}{
		{"nobody waits", -1, -1, -1, "up 0 11.25s", ""},
		{"all the time", 0, -1, -1, "down 1 20s", "b"},
		{"since before", time.Minute, -1, -1, "down 1 20s", "b"},
		{"not as long", -2 * time.Second, -1, -1, "down 1 22s", "b"},
		{"another one was answered", time.Minute, 9, -1, "up 0 15s", ""},
		{"and one failed", time.Minute, 9, 9, "down 1 20s", "b"},
		{"another one was answered in the first half", time.Minute, 6, -1, "down 1 20s", "b"},
		{"in the older config", time.Minute, 7.75, -1, "up 0 15s", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				set := defaults()
				b := l.backend("b", "p")
				pools := func() *pool { return &pool{set: set, backends: []*backend{b, l.backend("a", "p")}} }
				first := pools()
				l.start(first)
				first.wait(true)
				b.slowDown(time.Hour)
				newest := first
				for s := 5.0; s <= 12; s += 0.25 {
					l.at(s)
					switch s {
					case 6, 8, 11.25:
						newest = pools()
						l.reload(newest)
					}
					at := l.began.Add(seconds(s)[0])
					if s == test.answered {
						newest.targets[0].Answered(at)
					}
					if s == test.failed {
						newest.targets[0].Failed(at)
					}
					if test.waits != -1 {
						first.targets[0].Unanswered(test.waits + seconds(s)[0] - 5*time.Second)
					}
				}
				l.at(12)
				l.equal("known", newest.known(0), test.want)
				l.equal("told in the first", first.left(), test.left)
				first.wait(false)
			})
		})
	}
}
