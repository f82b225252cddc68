package upstreams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// rarely checks once an hour, for two seconds at most.
func rarely(cfg *PoolConfig) {
	cfg.Check.Interval = caddy.Duration(time.Hour)
	cfg.Check.Timeout = caddy.Duration(2 * time.Second)
}

// A request that waits for a frozen upstream is cut loose as soon as without
// reloads, though one follows the other faster than a check times out.
func TestSilenceAndRescueWhileReloading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, rarely)
		l.start()
		synctest.Wait()
		l.change(func() { l.hung["a:1"] = true })
		begin := time.Now()
		r := l.request(t)
		l.pool.cursor.Store(uint64(len(all)) - 1) // a next
		over := make(chan struct{})
		go func() {
			defer close(over)
			first, err := r.try()
			if first != "a:1" || !errors.Is(err, errRescued) {
				t.Errorf("%s: %v", first, err)
			}
			// looked at after 1 s, checked, which takes 2 s
			if took := time.Since(begin); took != 3*time.Second {
				t.Errorf("cut loose after %s", took)
			}
		}()
		old := l
		for range 3 {
			time.Sleep(1300 * time.Millisecond)
			newer := newLab(t, rarely)
			newer.change(func() { newer.hung["a:1"] = true })
			newer.start()
			old.pool.Close()
			old = newer
		}
		<-over
	})
}
