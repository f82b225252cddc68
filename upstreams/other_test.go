package upstreams

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request that has tried all in rotation does not wait for the schedule of
// the others: they are checked at once.
func TestOthersAreAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*lab)
		want   string
		wait   time.Duration
	}{
		"one is well again":    {func(l *lab) { l.set(false, "c:1") }, "c:1", 0},
		"none is":              {func(*lab) {}, "", 0},
		"checks take too long": {func(l *lab) { l.set(false, "c:1"); l.slowDown(time.Minute) }, "", askWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.set(true, "b:1", "c:1", "d:1")
				l.start()
				time.Sleep(3 * time.Second)
				if l.in() != "a" {
					t.Fatalf("in rotation: %s", l.in())
				}
				l.change(func() { l.status["a:1"] = 500 })
				r := l.request(t)
				if address, err := r.try(); address != "a:1" || err != nil {
					t.Fatalf("%s: %v", address, err)
				}
				tc.change(l)
				begin := time.Now()
				address := ""
				u := l.pool.Select(nil, r.req, nil)
				if u != nil {
					address = u.Dial
				}
				if took := time.Since(begin); address != tc.want || took != tc.wait {
					t.Errorf("got %q after %s, want %q after %s", address, took, tc.want, tc.wait)
				}
			})
		})
	}
}
