package upstreams

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What the source does not name, and static upstreams while it names some, do
// not make up for the last one that serves: it is neither ejected nor retired.
func TestLastDynamicUpstreamStays(t *testing.T) {
	for _, tc := range []struct {
		name, before, list string
		static             []string
	}{
		{name: "another is gone", before: "a:1 b:1", list: "a:1"},
		{name: "static upstream", before: "a:1", list: "a:1", static: []string{"d:1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{list: tc.before}
				l := newLab(t, func(cfg *PoolConfig) { s.from(tc.static...)(cfg); ejecting(1, 10*time.Second)(cfg) })
				l.start()
				synctest.Wait()
				s.says(tc.list)
				l.change(func() { l.status["a:1"] = 500 })
				for range 3 {
					if address, _ := l.request(t).try(); address != "a:1" {
						t.Errorf("got %q", address)
					}
				}
				l.set(true, "a:1")
				time.Sleep(6 * time.Minute)
				if got := l.row("a:1"); got.Status.String() != "down" || got.Failures < 10 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// One that is ejected when it becomes the only one is put back at once.
func TestEjectedDynamicUpstreamBecomesTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		l := newLab(t, func(cfg *PoolConfig) { s.from("d:1")(cfg); ejecting(1, 10*time.Second)(cfg) })
		l.start()
		synctest.Wait()
		l.change(func() { l.status["a:1"] = 500 })
		l.picks(t, 4)
		if got := l.in(); got != "db" {
			t.Errorf("in rotation: %s", got)
		}
		s.says("a:1")
		if got := fmt.Sprint(l.picks(t, 10)); got != "map[a:1:10]" {
			t.Errorf("picks %s", got)
		}
		s.says("error") // which the static one is for
		if got := fmt.Sprint(l.picks(t, 10)); got != "map[d:1:10]" {
			t.Errorf("picks %s", got)
		}
		l.change(func() { l.status["d:1"] = 500 })
		if got := fmt.Sprint(l.picks(t, 10)); got != "map[d:1:10]" {
			t.Errorf("picks %s", got)
		}
	})
}

// No tenant's upstreams make up for another's, be the last one held in its
// ejection or waiting for a trial.
func TestLastUpstreamOfATenantStays(t *testing.T) {
	for name, wait := range map[string]time.Duration{"held": 0, "on trial": time.Minute} {
		t.Run(name, func(t *testing.T) { lastOfATenant(t, wait) })
	}
}

// lastOfATenant ejects one of two, and takes the other away after that long.
func lastOfATenant(t *testing.T, later time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{tenants: map[string]string{"one": "a:1 b:1", "two": "c:1"}}
		l := newLab(t, func(cfg *PoolConfig) {
			s.from()(cfg)
			ejecting(1, 10*time.Second)(cfg)
			cfg.SourceDepends = true
		})
		l.start()
		_, _ = l.as(t, "two").try()
		l.change(func() { l.status["a:1"], l.status["b:1"] = 500, 500 })
		served := make(map[string]int)
		for range 10 {
			address, _ := l.as(t, "one").try()
			served[address]++
		}
		if got := fmt.Sprint(served); got != "map[a:1:1 b:1:9]" && got != "map[a:1:9 b:1:1]" {
			t.Errorf("served by %s", got)
		}
		out := "a:1"
		if served["a:1"] > 1 {
			out = "b:1"
		}
		s.mu.Lock()
		s.tenants["one"] = out
		s.mu.Unlock()
		time.Sleep(later)
		l.slowDown(time.Second)
		var wait sync.WaitGroup
		for range 3 { // at the same time
			a := l.as(t, "one")
			wait.Go(func() {
				if address, _ := a.try(); address != out {
					t.Errorf("got %q, there is %s only", address, out)
				}
			})
		}
		wait.Wait()
	})
}

// row returns what is known about an upstream.
func (l *lab) row(address string) (row Upstream) {
	synctest.Wait()
	l.pool.Each(func(u Upstream) bool {
		if u.Address == address {
			row = u
		}
		return true
	})
	return row
}
