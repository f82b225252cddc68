package upstreams

import (
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// slowLab is a lab without checks whose a:1 is slow to answer the requests
// that are sent to it.
type slowLab struct {
	*lab
	begin time.Time
	sent  int
	wg    sync.WaitGroup
}

// ejectingSlow checks nothing, and ejects after so many failures, for which it
// is enough to take that long.
func ejectingSlow(latency time.Duration, maxFails int) func(*PoolConfig) {
	return unchecked(func(cfg *PoolConfig) {
		ejecting(maxFails, time.Minute)(cfg)
		cfg.Passive.UnhealthyLatency = caddy.Duration(latency)
	})
}

// served is by whom a request was answered at last, and when.
type served struct {
	address string
	after   time.Duration
}

func newSlowLab(t *testing.T, latency time.Duration, maxFails int) *slowLab {
	l := newLab(t, ejectingSlow(latency, maxFails))
	l.start()
	synctest.Wait()
	return &slowLab{lab: l, begin: time.Now()}
}

// send sends a request to a:1 first, which takes so long.
func (l *slowLab) send(t *testing.T, method string, takes time.Duration) *served {
	t.Helper()
	l.slowDown(takes)
	l.pool.cursor.Store(uint64(len(all)) - 1) // a next
	a, s := l.request(t), new(served)
	a.req.Method = method
	l.wg.Go(func() {
		for range all {
			address, err := a.try()
			if err == nil {
				*s = served{address, time.Since(l.begin)}
				return
			}
		}
	})
	synctest.Wait()
	l.change(func() {
		l.slow = 0
		if l.sent++; l.asked["a:1"] != l.sent {
			t.Fatal("not sent to a:1")
		}
	})
	return s
}

// An upstream that has become slow is ejected at the first look after
// unhealthy_latency, and who may be retried is answered by another one then.
func TestWaitingTooLongEjects(t *testing.T) {
	for _, tc := range []struct{ latency, later, found time.Duration }{
		{latency: time.Second, found: time.Second},
		{latency: time.Second, later: 100 * time.Millisecond, found: 1500 * time.Millisecond},
		{latency: time.Second + 1, found: 1500 * time.Millisecond},
		{latency: 300 * time.Millisecond, found: 300 * time.Millisecond},
		{latency: 300 * time.Millisecond, later: time.Millisecond, found: 450 * time.Millisecond},
		{latency: 150 * time.Millisecond, found: 200 * time.Millisecond}, // not looked at all the time
		{latency: 2500 * time.Millisecond, found: 3 * time.Second},       // but once a second
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newSlowLab(t, tc.latency, 2)
			post := l.send(t, http.MethodPost, 10*time.Second)
			first := l.send(t, http.MethodGet, 10*time.Second)
			time.Sleep(tc.later)
			second := l.send(t, http.MethodGet, 10*time.Second)
			third := l.send(t, http.MethodGet, 10*time.Second)
			time.Sleep(tc.found - time.Since(l.begin) - 1)
			if in := l.in(); in != "abcd" {
				t.Errorf("latency %s: ejected before %s", tc.latency, tc.found)
			}
			l.wg.Wait()
			for _, s := range []*served{first, second, third} {
				if s.address == "a:1" || s.after != tc.found {
					t.Errorf("latency %s: answered by %s after %s, want %s", tc.latency, s.address, s.after, tc.found)
				}
			}
			if post.address != "a:1" || post.after != 10*time.Second {
				t.Errorf("POST answered by %s after %s", post.address, post.after)
			}
			if n := l.pool.group.Targets()[0].Ejections(); n != 1 {
				t.Errorf("%d ejections", n)
			}
		})
	}
}

// An attempt counts once, however often it is looked at and however it ends.
func TestWaitingTooLongCountsOnce(t *testing.T) {
	for name, end := range map[string]func(*lab){
		"late answer": func(*lab) {},
		"bad answer":  func(l *lab) { l.status["a:1"] = 500 },
		"no answer":   func(l *lab) { l.sick["a:1"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlowLab(t, time.Second, 3)
				l.change(func() { end(l.lab) })
				l.send(t, http.MethodGet, 5*time.Second)
				time.Sleep(2250 * time.Millisecond) // looked at three times
				failures := &l.pool.places.Load().byAddress["a:1"].account.failures
				failures.mu.Lock()
				if n := failures.count; n != 1 {
					t.Errorf("counted %d times while it waits", n)
				}
				failures.mu.Unlock()
				l.wg.Wait()
				l.send(t, http.MethodPost, 2*time.Second)
				l.wg.Wait()
				if in := l.in(); in != "abcd" {
					t.Errorf("in rotation after two: %s", in)
				}
				l.send(t, http.MethodPost, 2*time.Second)
				l.wg.Wait()
				if in := l.in(); in != "bcd" {
					t.Errorf("in rotation after three: %s", in)
				}
			})
		})
	}
}

// Without unhealthy_latency or fail_duration who waits goes on waiting, and so
// does who has nowhere else to go.
func TestWaitingLongIsNoFailure(t *testing.T) {
	for name, change := range map[string]func(*Pool){
		"no unhealthy_latency": func(p *Pool) { p.latency = 0 },
		"nothing else": func(p *Pool) {
			for _, target := range p.group.Targets()[1:] {
				target.Eject("test", time.Hour)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlowLab(t, time.Second, 1)
				change(l.pool)
				s := l.send(t, http.MethodGet, 5*time.Second)
				l.wg.Wait()
				if s.address != "a:1" || s.after != 5*time.Second {
					t.Errorf("answered by %s after %s", s.address, s.after)
				}
			})
		})
	}
	p, _, err := NewPool(newLab(t, func(cfg *PoolConfig) {
		ejecting(1, 0)(cfg)
	}).pool.cfg, t)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.latency != 0 || p.timed || p.lookAfter() != silenceLook {
		t.Errorf("without fail_duration: latency %s, timed %t, looks every %s", p.latency, p.timed, p.lookAfter())
	}
}

// An upstream may leave rotation just as an attempt is looked at, which is cut
// loose all the same.
func TestRescueDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSlowLab(t, time.Second, 1)
		s := l.send(t, http.MethodGet, time.Hour)
		u := l.pool.places.Load().byAddress["a:1"]
		var r *Request
		u.waiters.each(func(waits *Request) { r = waits })
		if r == nil || !r.hold() {
			t.Fatal("does not wait")
		}
		l.wg.Go(func() { u.target.Eject("test", time.Hour) })
		for !u.lost.Load() {
			runtime.Gosched()
		}
		for range 100 { // while it tries
			runtime.Gosched()
		}
		r.phase.Store(waiting)
		l.wg.Wait()
		if s.address == "a:1" || s.after != 0 {
			t.Errorf("answered by %s after %s", s.address, s.after)
		}
	})
}

// Whoever waits in a pool that a reload has replaced is judged for the newer
// one, if that ejects at all: it need not wait for evidence of its own.
func TestWaitingTooLongEjectsFromTheNewerConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		newer func(*PoolConfig)
		in    string
		after time.Duration
	}{
		"the same": {ejectingSlow(time.Second, 1), "bcd", time.Second},
		"longer":   {ejectingSlow(2*time.Second, 1), "abcd", 5 * time.Second},
		"other statuses": {func(cfg *PoolConfig) {
			ejectingSlow(time.Second, 1)(cfg)
			cfg.Passive.UnhealthyStatus = []int{404}
		}, "abcd", 5 * time.Second},
		"more failures":        {ejectingSlow(time.Second, 2), "abcd", 5 * time.Second},
		"without ejections":    {unchecked(func(*PoolConfig) {}), "abcd", 5 * time.Second},
		"without that one":     {unchecked(func(cfg *PoolConfig) { cfg.Upstreams = cfg.Upstreams[1:] }), "bcd", 5 * time.Second},
		"a pool of its own":    {func(cfg *PoolConfig) { ejectingSlow(time.Second, 1)(cfg); cfg.Name = "other" }, "abcd", 5 * time.Second},
		"checks, same passive": {ejecting(1, time.Minute), "bcd", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlowLab(t, time.Second, 1)
				s := l.send(t, http.MethodGet, 5*time.Second)
				time.Sleep(700 * time.Millisecond)
				newer := newLab(t, tc.newer)
				newer.start()
				l.pool.Close()
				l.wg.Wait()
				if s.after != tc.after || (s.address == "a:1") != (tc.after == 5*time.Second) {
					t.Errorf("answered by %s after %s, want %s", s.address, s.after, tc.after)
				}
				if in := newer.in(); in != tc.in {
					t.Errorf("in rotation: %s, want %s", in, tc.in)
				}
			})
		})
	}
}
