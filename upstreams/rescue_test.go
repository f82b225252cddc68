package upstreams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// A backend that ends in an orderly way takes no new connections, and answers
// what it has. Nobody who waits is sent elsewhere before it is silent.
func TestShutUpstreamFinishesItsRequests(t *testing.T) {
	for name, change := range map[string]func(*PoolConfig){
		"out by a check": func(*PoolConfig) {},
		"ejected": func(cfg *PoolConfig) {
			cfg.Passive.FailDuration = caddy.Duration(time.Minute)
		},
	} {
		for _, tc := range []struct {
			takes, until time.Duration
			err          error
		}{
			{takes: 600 * time.Millisecond, until: 600 * time.Millisecond},
			{takes: 5 * time.Second, until: time.Second, err: errRescued},
		} {
			t.Run(name+", one that takes "+tc.takes.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, change)
					l.start()
					time.Sleep(time.Second)
					l.slowDown(tc.takes)
					waiting := l.request(t)
					l.pool.cursor.Store(uint64(len(all)) - 1) // a next
					var (
						first string
						err   error
					)
					begin, ended := time.Now(), make(chan time.Time, 1)
					go func() {
						first, err = waiting.try()
						ended <- time.Now()
					}()
					time.Sleep(100 * time.Millisecond)
					l.change(func() { l.slow, l.shut["a:1"] = 0, true })
					for range all {
						_, _ = l.request(t).try()
					}
					if in := l.in(); in != "bcd" {
						t.Fatalf("in rotation: %s", in)
					}
					took := (<-ended).Sub(begin)
					if first != "a:1" || !errors.Is(err, tc.err) || took != tc.until {
						t.Errorf("%s: %v after %s, want %v after %s", first, err, took, tc.err, tc.until)
					}
				})
			})
		}
	}
}

// One that has no time to lose, by lb_try_duration, is sent elsewhere at once.
func TestShutUpstreamIsLeftInTime(t *testing.T) {
	for _, tc := range []struct{ most, until time.Duration }{
		{most: 2 * time.Second, until: 100 * time.Millisecond},
		{most: 2101 * time.Millisecond, until: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, func(cfg *PoolConfig) {
				cfg.SingleRound = false
				cfg.Retry = &reverseproxy.LoadBalancing{TryDuration: caddy.Duration(tc.most)}
			})
			l.start()
			time.Sleep(time.Second)
			l.change(func() { l.hung["a:1"] = true })
			waiting, begin := l.request(t), time.Now()
			l.pool.cursor.Store(uint64(len(all)) - 1) // a next
			ended := make(chan error, 1)
			go func() {
				_, err := waiting.try()
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
			l.change(func() { l.shut["a:1"] = true })
			for range all {
				_, _ = l.request(t).try()
			}
			if err := <-ended; !errors.Is(err, errRescued) || time.Since(begin) != tc.until {
				t.Errorf("lb_try_duration %s: %v after %s, want %s", tc.most, err, time.Since(begin), tc.until)
			}
		})
	}
}

// Who waits for an upstream that left when nothing else was there goes to the
// first one that comes back, after a reload too.
func TestRescueWhenAnotherComesBack(t *testing.T) {
	for name, reload := range map[string]bool{"undisturbed": false, "after a reload": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, rarely)
				l.set(true, all[1:]...)
				l.start()
				time.Sleep(time.Minute)
				l.change(func() { l.hung["a:1"] = true })
				r, begin := l.request(t), time.Now()
				ended := make(chan error, 1)
				go func() {
					_, err := r.try()
					ended <- err
				}()
				time.Sleep(10500 * time.Millisecond)
				now := l
				if reload {
					now = newLab(t, rarely)
					now.change(func() { now.hung["a:1"] = true })
					now.set(true, all[1:]...)
					now.start()
					l.pool.Close()
				}
				if in := now.in(); in != "" {
					t.Fatalf("in rotation: %s", in)
				}
				l.set(false, "b:1")
				now.set(false, "b:1")
				now.pool.group.Targets()[1].CheckNow()
				if err := <-ended; !errors.Is(err, errRescued) || time.Since(begin) != 11*time.Second {
					t.Errorf("%v after %s", err, time.Since(begin))
				}
				if address, err := r.try(); address != "b:1" || err != nil {
					t.Errorf("%s, %v", address, err)
				}
			})
		})
	}
}
