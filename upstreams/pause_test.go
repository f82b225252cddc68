package upstreams

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pausing is a pool whose requests pause for a second between two attempts.
func pausing(cfg *PoolConfig) {
	cfg.SingleRound, cfg.Persistent, cfg.TryInterval = false, true, time.Second
	cfg.Check.Interval = 1 << 50 // but the first, checks are asked for
}

// trace makes attempts and returns their times in seconds and upstreams.
func (a *attempt) trace(n int) string {
	var list strings.Builder
	begin := time.Now()
	for range n {
		address, _ := a.try()
		list.WriteString(" " + time.Since(begin).String())
		if address == "" {
			list.WriteString("-")
		}
	}
	return strings.TrimSpace(list.String())
}

func TestPause(t *testing.T) {
	big := func(cfg *PoolConfig) {
		pausing(cfg)
		for _, name := range []string{"e:1", "f:1", "g:1", "h:1"} {
			cfg.Upstreams = append(cfg.Upstreams, Config{Dial: name})
		}
	}
	tests := []struct {
		name   string
		change func(*PoolConfig)
		fill   string // full from the second attempt on
		want   string
	}{
		{"not before each has been tried once", pausing, "", "0s 0s 0s 0s 1s 1s 2s 3s 4s"},
		{"not more than five times", big, "", "0s 0s 0s 0s 0s 0s 1s 2s 3s"},
		{"always if the others are full", pausing, "abcd", "0s 0s- 1s- 2s- 3s-"},
		{"never", func(cfg *PoolConfig) { pausing(cfg); cfg.TryInterval = 0 }, "", "0s 0s 0s 0s 0s 0s 0s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, test.change)
				l.start()
				synctest.Wait()
				l.change(func() {
					for _, u := range l.pool.cfg.Upstreams {
						l.idle[u.Dial] = true // fails, and leaves it in rotation
					}
				})
				a := l.request(t)
				got, n := "", strings.Count(test.want, " ")+1
				if test.fill != "" {
					got, n = a.trace(1)+" ", n-1
					for _, u := range l.pool.places.Load().byAddress {
						u.proxy.MaxRequests = 1
						fill(t, u, 1)
					}
				}
				if got += a.trace(n); got != test.want {
					t.Errorf("attempts at\n%s, want\n%s", got, test.want)
				}
			})
		})
	}
}

// Neither what comes back nor a reload ends a pause.
func TestPauseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, pausing)
		l.set(true, "c:1", "d:1")
		l.start()
		synctest.Wait()
		l.change(func() { l.idle["a:1"], l.idle["b:1"] = true, true })
		a := l.request(t)
		if got := a.trace(2); got != "0s 0s" {
			t.Fatalf("attempts at %s", got)
		}
		began := time.Now()
		time.AfterFunc(300*time.Millisecond, l.stop)
		time.AfterFunc(600*time.Millisecond, func() {
			l.set(false, "c:1")
			for _, target := range l.pool.group.Targets() {
				target.CheckNow()
			}
		})
		if address, err := a.try(); address != "c:1" || err != nil || time.Since(began) != time.Second {
			t.Errorf("%s %v after %s", address, err, time.Since(began))
		}
	})
}
