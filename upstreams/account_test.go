package upstreams

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// booked returns, of an upstream: requests, retries, errors, and how they
// ended, by outcome.
func (l *lab) booked(address string) string {
	booked := ""
	l.pool.Each(func(u Upstream) bool {
		if u.Address == address {
			booked = fmt.Sprint(u.Requests, u.Retries, u.Errors, u.Outcomes)
		}
		return true
	})
	return booked
}

// alone makes a pool of one upstream.
func alone(cfg *PoolConfig) { cfg.Upstreams = cfg.Upstreams[:1] }

func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, alone)
		l.start()
		synctest.Wait()
		for _, step := range []struct {
			what   string
			change func()
			want   string
		}{
			{"below 500", func() { l.status["a:1"] = http.StatusNotFound }, "1 0 0 [1 0 0 0 0]"},
			{"from 500", func() { l.status["a:1"] = http.StatusInternalServerError }, "2 0 0 [1 1 0 0 0]"},
			{"none", func() { l.sick["a:1"] = true }, "3 0 1 [1 1 1 0 0]"},
		} {
			l.change(step.change)
			_, _ = l.request(t).try()
			if got := l.booked("a:1"); got != step.want {
				t.Errorf("%s: booked %s, want %s", step.what, got, step.want)
			}
		}
	})
}

func TestClientsThatLeaveAreCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, alone)
		l.start()
		synctest.Wait()
		l.slowDown(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, _ = l.begin(ctx).try()
		if got := l.booked("a:1"); got != "1 0 0 [0 0 0 1 0]" {
			t.Errorf("booked %s", got)
		}
	})
}

// Retries are booked where they go to.
func TestRetriesAreBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Upstreams = cfg.Upstreams[:2] })
		l.start()
		synctest.Wait()
		l.set(true, "b:1")
		r := l.request(t) // b is first
		_, _ = r.try()
		_, _ = r.try()
		if b, a := l.booked("b:1"), l.booked("a:1"); b != "1 0 1 [0 0 1 0 0]" || a != "1 1 0 [1 0 0 0 0]" {
			t.Errorf("booked %s and %s", b, a)
		}
	})
}

// Requests without an attempt are counted once each, not those that have had
// one or whose client has left, and the count outlives the config.
func TestUnserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, alone)
		l.set(true, "a:1")
		l.start()
		synctest.Wait()
		r := l.request(t)
		for range 3 {
			if address, _ := r.try(); address != "" {
				t.Fatalf("sent to %s", address)
			}
		}
		r.record.End()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		gone := l.begin(ctx)
		_, _ = gone.try()
		gone.record.End()
		if n := l.pool.Unserved(); n != 1 {
			t.Errorf("%d unserved", n)
		}

		next := newLab(t, alone)
		next.start()
		l.stop()
		l.pool.Close()
		time.Sleep(time.Minute)
		if n := next.pool.Unserved(); n != 1 {
			t.Errorf("%d unserved after a reload", n)
		}
		served := next.request(t)
		_, _ = served.try()
		_, _ = served.try()
		served.record.End()
		if n := next.pool.Unserved(); n != 1 {
			t.Errorf("%d unserved after one that was served", n)
		}
	})
}

func TestOutcomeNames(t *testing.T) {
	names := ""
	for how := range Outcome(numOutcomes + 1) {
		names += how.String() + " "
	}
	if names != "success error_status failed canceled rescued Outcome(5) " {
		t.Error(names)
	}
}
