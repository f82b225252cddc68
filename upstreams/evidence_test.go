package upstreams

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// ejecting configures passive health checks.
func ejecting(maxFails int, within time.Duration) func(*PoolConfig) {
	return func(cfg *PoolConfig) {
		cfg.Passive = reverseproxy.PassiveHealthChecks{
			FailDuration: caddy.Duration(within), MaxFails: maxFails,
			UnhealthyStatus: []int{5}, UnhealthyLatency: caddy.Duration(time.Second),
		}
	}
}

// patient does not mind how long requests take.
func patient(change func(*PoolConfig)) func(*PoolConfig) {
	return func(cfg *PoolConfig) {
		change(cfg)
		cfg.Passive.UnhealthyLatency = 0
	}
}

// unchecked switches checks off.
func unchecked(change func(*PoolConfig)) func(*PoolConfig) {
	return func(cfg *PoolConfig) {
		change(cfg)
		cfg.Check.Protocol = healthcheck.ProtocolNone
	}
}

// rounds sends a request to each of the four upstreams, so many times.
func (l *lab) rounds(t *testing.T, n int) {
	for range n * len(all) {
		_, _ = l.request(t).try()
	}
}

// brokenBody breaks off.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }
func (brokenBody) Close() error               { return nil }

func TestWhatEjects(t *testing.T) {
	broken := func(l *lab) { l.body = brokenBody{io.ErrUnexpectedEOF} }
	for _, tc := range []struct {
		name   string
		change func(*lab)
		in     string
	}{
		{"nothing", func(*lab) {}, "abcd"},
		{"unhealthy_status", func(l *lab) { l.status["a:1"] = 500 }, "bcd"},
		{"a status below", func(l *lab) { l.status["a:1"] = 404 }, "abcd"},
		{"unhealthy_latency of all but the last", func(l *lab) { l.slow = time.Second }, "one"},
		{"latency below", func(l *lab) { l.slow = time.Second - 1 }, "abcd"},
		{"n340 a broken body, of all but the last", broken, "one"},
		{"a body to its end", func(l *lab) { l.body = brokenBody{io.EOF} }, "abcd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
				l.start()
				l.change(func() { tc.change(l) })
				l.pool.cursor.Store(uint64(len(all)) - 1) // a first
				for range all {
					a := l.request(t)
					a.req.Method = http.MethodPost // which waits for its answer, however long
					_, resp, err := a.answer()
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				if in := l.in(); in != tc.in && (tc.in != "one" || len(in) != 1) {
					t.Errorf("in rotation: %s, want %s", in, tc.in)
				}
			})
		})
	}
}

// An attempt counts once, though its status is unhealthy, its answer slow and
// its body broken.
func TestAnAttemptCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(2, time.Minute)))
		l.start()
		l.change(func() {
			l.status["a:1"], l.slow, l.body = http.StatusInternalServerError, time.Second, brokenBody{io.ErrUnexpectedEOF}
		})
		for n, want := range []string{"abcd", "bcd"} {
			l.pool.cursor.Store(uint64(len(all)) - 1) // a next
			a := l.request(t)
			a.req.Method = http.MethodPost // which waits for its answer
			address, resp, err := a.answer()
			if address != "a:1" || err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if in := l.in(); in != want {
				t.Errorf("after %d: in rotation: %s, want %s", n+1, in, want)
			}
		}
	})
}

// A connection becomes the response body, of which nobody may hide anything.
func TestConnectionsAreNotWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
		l.start()
		conn := struct {
			io.ReadCloser
			io.Writer
		}{http.NoBody, io.Discard}
		l.change(func() {
			l.body = conn
			for _, a := range all {
				l.status[a] = http.StatusSwitchingProtocols
			}
		})
		_, resp, err := l.request(t).answer()
		if _, ok := resp.Body.(io.ReadWriteCloser); !ok || err != nil {
			t.Errorf("%T, %v", resp.Body, err)
		}
	})
}

// max_fails failures within fail_duration eject, spread over more they do not.
func TestFailuresWithinFailDuration_n599(t *testing.T) {
	for _, tc := range []struct {
		apart time.Duration
		in    string
	}{{5 * time.Second, "bcd"}, {5*time.Second + 1, "abcd"}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, ejecting(3, 10*time.Second))
			l.start()
			synctest.Wait()
			l.change(func() { l.status["a:1"] = 500 })
			for range 3 {
				l.rounds(t, 1)
				time.Sleep(tc.apart)
			}
			if in := l.in(); in != tc.in {
				t.Errorf("%s apart: in rotation: %s, want %s", tc.apart, in, tc.in)
			}
		})
	}
}

// A burst of failures is one ejection, and what began before one does not
// count after it.
func TestBurstIsOneEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, patient(ejecting(1, time.Hour)))
		l.start()
		synctest.Wait()
		var wg sync.WaitGroup
		l.change(func() { l.status["a:1"], l.slow = 500, 500*time.Millisecond })
		for range 400 {
			wg.Go(func() { _, _ = l.request(t).try() })
		}
		synctest.Wait()
		l.change(func() { l.slow = 30 * time.Second })
		for range 4 {
			wg.Go(func() { _, _ = l.request(t).try() }) // fails long after
		}
		synctest.Wait()
		l.change(func() { l.slow = 0 })
		time.Sleep(time.Second)
		target := l.pool.group.Targets()[0]
		if n, until := target.Ejections(), time.Until(target.Info().EjectedUntil); n != 1 || until != 9500*time.Millisecond {
			t.Errorf("%d ejections, the last one for another %s", n, until)
		}
		l.change(func() { l.status["a:1"] = 0 })
		wg.Wait()
		if n := target.Ejections(); n != 1 || l.in() != "abcd" {
			t.Errorf("%d ejections, in rotation: %s", n, l.in())
		}
	})
}

func TestClientsThatGoAwayEjectNothing_c1925(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, ejecting(1, 10*time.Second))
		l.start()
		synctest.Wait()
		l.change(func() { l.slow = 10 * time.Millisecond })
		for range 100 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, context.Canceled)
			a := l.begin(ctx)
			if _, err := a.try(); err == nil {
				t.Fatal("answered")
			}
			a.record.End()
			cancel()
		}
		l.pool.Each(func(u Upstream) bool {
			if u.Errors != 0 || u.Ejected {
				t.Errorf("%s has %d errors, ejected %t", u.Address, u.Errors, u.Ejected)
			}
			return true
		})
	})
}

// With checks off, exactly one of many requests is the trial of an ejected
// upstream. One whose client goes away frees it for another.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
		l.start()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		time.Sleep(9 * time.Second)
		l.change(func() { l.status["a:1"] = 0; clear(l.asked) })
		l.rounds(t, 5)
		if n := l.asked["a:1"]; n != 0 {
			t.Errorf("%d requests during the hold", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()

		ctx, leave := context.WithCancel(t.Context())
		leaving := l.begin(ctx)
		l.change(func() { l.slow = 100 * time.Millisecond })
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = leaving.try()
			leaving.record.End()
		})
		synctest.Wait()
		many := func() {
			for range 40 {
				wg.Go(func() { _, _ = l.request(t).try() })
			}
			synctest.Wait()
		}
		many()
		if n := l.asked["a:1"]; n != 1 {
			t.Errorf("%d trials at a time", n)
		}
		leave()
		synctest.Wait()
		if l.in() != "bcd" {
			t.Errorf("in rotation: %s", l.in())
		}
		many()
		if n := l.asked["a:1"]; n != 2 {
			t.Errorf("%d trials", n)
		}
		wg.Wait()
		if l.in() != "abcd" {
			t.Errorf("in rotation: %s", l.in())
		}
	})
}

// A failed trial ejects for longer.
func TestFailedTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
		l.start()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		begin := time.Now()
		time.Sleep(12 * time.Second)
		l.rounds(t, 2)
		if got := l.pool.group.Targets()[0].Info().EjectedUntil.Sub(begin); got != 27*time.Second {
			t.Errorf("ejected until %s", got)
		}
		if n := l.asked["a:1"]; n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// However many requests fail, memory stays bounded.
func TestFailuresAreBounded_c1069_c5398(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failures
		for range 50_000 {
			f.add(time.Now(), time.Minute)
			time.Sleep(time.Millisecond)
		}
		if len(f.marks) > maxMarks+1 || cap(f.marks) > 4*maxMarks {
			t.Errorf("%d marks, room for %d", len(f.marks), cap(f.marks))
		}
		if n := f.add(time.Now(), time.Minute); n != 50_001 {
			t.Errorf("counted %d", n)
		}
		time.Sleep(time.Minute)
		if n := f.add(time.Now(), time.Minute); n > 300 {
			t.Errorf("%d failures have not been forgotten", n)
		}
	})
}

// Silence is checked at once, though the next scheduled check is far off; who
// waits goes elsewhere.
func TestSilenceAndRescue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.Check.Interval = caddy.Duration(time.Hour)
			cfg.Check.Timeout = caddy.Duration(2 * time.Second)
		})
		l.start()
		time.Sleep(time.Minute)
		l.change(func() { l.hung["a:1"] = true })
		begin := time.Now()
		r := l.request(t)
		l.pool.cursor.Store(uint64(len(all)) - 1) // a next
		first, err := r.try()
		if first != "a:1" || !errors.Is(err, errRescued) {
			t.Fatalf("%s: %v", first, err)
		}
		// looked at after 1 s, checked, which takes 2 s
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("cut loose after %s", took)
		}
		if timeout, ok := err.(interface{ Timeout() bool }); !ok || !timeout.Timeout() || errors.Unwrap(err) != nil || errors.Is(err, context.Canceled) {
			t.Errorf("Caddy would not retry %#v", err)
		}
		second, err := r.try()
		if second == "a:1" || err != nil {
			t.Errorf("%s: %v", second, err)
		}
		if l.in() != "bcd" {
			t.Errorf("in rotation: %s", l.in())
		}
		l.pool.Each(func(u Upstream) bool {
			if want := uint64(0); u.Address == "a:1" && (u.Outcomes[Rescued] != 1 || u.Errors != 1) || u.Address != "a:1" && u.Outcomes[Rescued] != want {
				t.Errorf("%s: %d rescues, %d errors", u.Address, u.Outcomes[Rescued], u.Errors)
			}
			return true
		})
	})
}

// A request that comes to wait for an upstream just as it leaves is cut loose,
// too; one for which nothing else is there is left alone, and so is a second
// attempt, and what Caddy would not retry.
func TestRescueHasLimits(t *testing.T) {
	post := func(a *attempt) { a.req.Method = http.MethodPost }
	for _, tc := range []struct {
		name    string
		change  func(*PoolConfig)
		prepare func(*attempt)
		down    []string
		rescued bool
	}{
		{name: "GET", rescued: true},
		{name: "POST", prepare: post},
		{name: "POST that may be retried", prepare: post, rescued: true, change: func(cfg *PoolConfig) {
			cfg.Retry.RetryMatch = append(cfg.Retry.RetryMatch, nil) // matches everything
		}},
		{name: "no retries", change: func(cfg *PoolConfig) { cfg.Retry.Retries = 0 }},
		{name: "the last retry", prepare: func(a *attempt) { a.record.idle = 5 }},
		{name: "retries for some time", rescued: true, change: func(cfg *PoolConfig) {
			cfg.Retry.Retries, cfg.Retry.TryDuration = 0, caddy.Duration(10*time.Second)
		}},
		{name: "that time is over", change: func(cfg *PoolConfig) {
			cfg.Retry.Retries, cfg.Retry.TryDuration = 0, caddy.Duration(time.Second)
		}},
		{name: "another tried one is out", rescued: true, down: all[2:], prepare: func(a *attempt) {
			d := a.pool.places.Load().byAddress["d:1"]
			a.record.path, a.record.attempts = append(a.record.path, d), 1
		}},
		{name: "all others tried", down: all[2:], prepare: func(a *attempt) {
			b := a.pool.places.Load().byAddress["b:1"]
			a.record.path, a.record.attempts = append(a.record.path, b), 1
		}},
		{name: "all others full", prepare: func(a *attempt) {
			for _, address := range all[1:] {
				a.pool.places.Load().byAddress[address].proxy.MaxRequests = 1
				fill(t, a.pool.places.Load().byAddress[address], 1)
			}
		}},
		{name: "once", prepare: func(a *attempt) { a.record.rescued = true }},
		{name: "nothing else", down: all[1:]},
		{name: "body", prepare: func(a *attempt) {
			a.req.Body, a.req.ContentLength = brokenBody{}, 1
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, func(cfg *PoolConfig) {
					cfg.Check.Timeout = caddy.Duration(time.Second)
					if tc.change != nil {
						tc.change(cfg)
					}
				})
				l.set(true, tc.down...)
				l.start()
				synctest.Wait()
				l.change(func() { l.hung["a:1"] = true })
				l.pool.cursor.Store(math.MaxUint64) // a next, however many are in rotation
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.Canceled)
				defer cancel()
				a := l.begin(ctx)
				if tc.prepare != nil {
					tc.prepare(a)
				}
				_, err := a.try()
				if got := errors.Is(err, errRescued); got != tc.rescued {
					t.Errorf("rescued: %t, %v", got, err)
				}
				a.record.End()
			})
		})
	}
}

// Rescues, answers and clients that leave at the same time.
func TestRescueRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, ejecting(1, 10*time.Second))
		l.start()
		synctest.Wait()
		l.change(func() { l.slow = time.Second })
		a := l.pool.places.Load().byAddress["a:1"]
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				try := l.begin(ctx)
				defer try.record.End()
				if i%3 == 0 {
					time.AfterFunc(time.Second, cancel)
				}
				for range 3 {
					if _, err := try.try(); err == nil || ctx.Err() != nil {
						return
					}
				}
			})
		}
		wg.Go(func() { time.Sleep(time.Second); a.target.Eject("test", time.Minute) })
		wg.Wait()
		waiting := 0
		a.waiters.each(func(*Request) { waiting++ })
		if n := a.silence.waiting.Load(); n != 0 || waiting != 0 {
			t.Errorf("%d still wait, %d can be cut loose", n, waiting)
		}
	})
}

func TestWaitersHaveRoom(t *testing.T) {
	var w waiters
	slots := make(map[any]bool)
	for range 5000 {
		slot := w.add(new(Request))
		if slots[slot] {
			t.Fatal("a slot was given twice")
		}
		slots[slot] = true
	}
	found := 0
	w.each(func(*Request) { found++ })
	if found != 5000 {
		t.Errorf("found %d", found)
	}
}

// panicking is a transport that panics.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("broken") }

// An attempt whose transport panics waits for nothing any more: the server
// ends the request and lives on.
func TestTransportPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		synctest.Wait()
		good := l.pool.cfg.Transport
		l.pool.cfg.Transport = panicking{}
		l.pool.cursor.Store(uint64(len(all)) - 1) // a next
		func() {
			defer func() { _ = recover() }()
			a := l.begin(t.Context())
			defer a.record.End()
			_, _ = a.try()
		}()
		l.pool.cfg.Transport = good
		a := l.pool.places.Load().byAddress["a:1"]
		waiting := 0
		a.waiters.each(func(*Request) { waiting++ })
		if n := a.silence.waiting.Load(); n != 0 || waiting != 0 {
			t.Errorf("%d still wait, %d can be cut loose", n, waiting)
		}
		a.target.Eject("test", time.Minute)
		if in := l.in(); in != "bcd" {
			t.Errorf("in rotation: %s", in)
		}
	})
}

// An ejection that a reload has kept is decided by a trial also if the new
// config ejects nothing.
func TestTrialWithoutFailDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
		l.start()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		next := newLab(t, unchecked(func(*PoolConfig) {}))
		next.start()
		l.pool.Close()
		if in := next.in(); in != "bcd" {
			t.Fatalf("in rotation: %s", in)
		}
		time.Sleep(11 * time.Second)
		next.rounds(t, 1)
		if in := next.in(); in != "abcd" {
			t.Errorf("in rotation: %s", in)
		}
	})
}

// A request that went on to another upstream is no trial any more, though its
// attempt decided nothing.
func TestTrialIsFreeAfterAnIdleClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(ejecting(1, 10*time.Second)))
		l.start()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		time.Sleep(11 * time.Second)
		l.change(func() { l.status["a:1"] = 0; l.idle = map[string]bool{"a:1": true} })
		r := l.request(t)
		if first, err := r.try(); first != "a:1" || err == nil {
			t.Fatalf("%s, %v", first, err)
		}
		if second, err := r.try(); second == "a:1" || err != nil {
			t.Fatalf("%s, %v", second, err)
		}
		l.change(func() { clear(l.idle) })
		if third, _ := l.request(t).try(); third != "a:1" || l.in() != "abcd" {
			t.Errorf("%s, in rotation: %s", third, l.in())
		}
	})
}

// An upstream that waits for a trial keeps its place among the others, so that
// also a policy that goes by it gives it one.
func TestTrialWithPolicyFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, unchecked(func(cfg *PoolConfig) {
			ejecting(1, 10*time.Second)(cfg)
			cfg.Policy = new(reverseproxy.FirstSelection)
		}))
		l.start()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		l.change(func() { l.status["a:1"] = 0 })
		if counts := l.picks(t, 10); counts["b:1"] != 10 {
			t.Errorf("during the hold: %v", counts)
		}
		time.Sleep(11 * time.Second)
		if counts := l.picks(t, 10); counts["a:1"] != 10 || l.in() != "abcd" {
			t.Errorf("after it: %v, in rotation: %s", counts, l.in())
		}
	})
}

// closedBody is a request body that is still being read when the transport
// closes it, as after a failure.
type closedBody struct{}

func (closedBody) Read([]byte) (int, error) { return 0, errors.New("body closed by handler") }
func (closedBody) Close() error             { return nil }

// A request body that ends because the transport has closed it is no fault of
// the client, whatever the server says about it.
func TestClosedBodyIsNotTheClients(t *testing.T) {
	body := &clientBody{ReadCloser: closedBody{}}
	_ = body.Close()
	_, _ = body.Read(nil)
	if body.failed.Load() {
		t.Error("taken for the client's fault")
	}
	body = &clientBody{ReadCloser: closedBody{}}
	_, _ = body.Read(nil)
	if !body.failed.Load() {
		t.Error("not taken for the client's fault")
	}
}
