package upstreams

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// After all were down, those that come back later than the first one do not
// wait for the schedule while there are requests.
func TestLaterOnesOfAComeback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Check.Interval = caddy.Duration(time.Hour) })
		l.set(true, all...)
		l.start()
		synctest.Wait()
		for _, step := range []struct {
			back string
			want string // two seconds later at the latest
		}{{"", ""}, {"c:1", "c"}, {"a:1", "ac"}, {"b:1", "abc"}} {
			l.set(false, step.back)
			for end := time.Now().Add(2*time.Second + 2*askWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				_, _ = l.request(t).try()
			}
			if in := l.in(); in != step.want {
				t.Errorf("after %q has come back: %q, want %q", step.back, in, step.want)
			}
		}
	})
}
