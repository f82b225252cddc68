package healthcheck

import (
	"fmt"
	"testing"
	"time"
)

// However many retired targets are recalled, no more than firstMost are
// checked at a time, and all are in turn.
func TestRecallIsBounded(t *testing.T) {
	inLab(t, func(l *lab) {
		set := defaults()
		set.MaxFailures = 1
		last := l.backend("last", "ppf")
		p := &pool{set: set, backends: []*backend{last}}
		for i := range firstMost + 200 {
			p.backends = append(p.backends, l.backend(fmt.Sprint(i), "pf"))
		}
		l.start(p)
		l.at(8)
		for _, b := range p.backends[1:] {
			b.slowDown(time.Second)
		}
		l.at(10.5) // the last one has gone down
		running := func() (n int) {
			l.locked(func(*Registry) {
				for _, target := range p.targets {
					if target.rec.Load().running != nil {
						n++
					}
				}
			})
			return n
		}
		l.equal("checks under way", running(), firstMost)
		l.at(11.5)
		l.equal("checks under way", running(), 200)
		l.equal("status", p.targets[1].Status(), Down)
	})
}
