package upstreams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// told returns what the placeholders of a request say.
func told(a *attempt) string {
	repl := a.req.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return repl.ReplaceAll("{http.load_balance.pool} {http.load_balance.upstream} {http.load_balance.status} "+
		"{http.load_balance.attempts} {http.load_balance.tried} {http.load_balance.nonsense}", "-")
}

func TestPlaceholders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Check.Protocol = healthcheck.ProtocolNone })
		l.start()
		synctest.Wait()
		r := l.request(t)
		if got := told(r); got != "a:1 - - 0 - -" {
			t.Errorf("before any attempt: %s", got)
		}
		l.set(true, "b:1", "c:1")
		l.slowDown(time.Millisecond)
		for range 3 {
			_, _ = r.try()
		}
		if got := told(r); got != "a:1 d:1 up 3 b:1,c:1,d:1 -" {
			t.Errorf("after two retries: %s", got)
		}
	})
}

// The pool that has the request last is the one that tells.
func TestPlaceholdersOfASecondPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		synctest.Wait()
		r := l.request(t)
		_, _ = r.try()
		for range 2 {
			second := l.pool.Begin(r.record.Context)
			a := &attempt{l.pool, r.req.Clone(second.Context), second}
			a.req.URL.Host = ""
			if got := told(a); got != "a:1 - - 0 - -" {
				t.Errorf("before its attempt: %s", got)
			}
			_, _ = a.try()
			second.End()
		}
		if got := told(r); got[:6] != "a:1 d:" {
			t.Errorf("after the third: %s", got)
		}
	})
}

// However many rounds of retries there are, a request remembers few of them.
func TestPathIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.SingleRound = false
			cfg.Check.Protocol = healthcheck.ProtocolNone
		})
		l.start()
		l.set(true, all...)
		r := l.request(t)
		for range 1000 {
			_, _ = r.try()
		}
		if n := len(r.record.path); n > maxPath+len(all)+1 || r.record.attempts != 1000 {
			t.Errorf("%d upstreams remembered of %d attempts", n, r.record.attempts)
		}
	})
}

// A request that waits for an upstream goes elsewhere if an operator takes it
// into maintenance; draining leaves it alone.
func TestMaintRescues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Check.Protocol = healthcheck.ProtocolNone })
		l.start()
		l.change(func() { l.hung["a:1"] = true })
		l.pool.cursor.Store(uint64(len(all)) - 1) // a next
		r := l.request(t)
		failed := make(chan error, 1)
		go func() {
			_, err := r.try()
			failed <- err
		}()
		target := l.pool.group.Targets()[0]
		time.Sleep(time.Second)
		target.SetMode(healthcheck.Drain, 0)
		synctest.Wait()
		select {
		case err := <-failed:
			t.Fatalf("cut loose by draining: %v", err)
		default:
		}
		target.SetMode(healthcheck.Maint, 0)
		if err := <-failed; !errors.Is(err, errRescued) {
			t.Errorf("%v", err)
		}
		if address, err := r.try(); address == "a:1" || err != nil {
			t.Errorf("%s, %v", address, err)
		}
	})
}

// Nothing goes to an upstream in maintenance, not even when all are tried.
func TestTryAllLeavesOutMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.WhenAllDown = TryAll })
		l.set(true, all...)
		l.start()
		time.Sleep(time.Second)
		l.pool.group.Targets()[0].SetMode(healthcheck.Maint, 0)
		tried := make(map[string]bool)
		r := l.request(t)
		for range 4 {
			address, _ := r.try()
			tried[address] = true
		}
		if len(tried) != 4 || tried["a:1"] || !tried[""] {
			t.Errorf("tried %v", tried)
		}
		for _, target := range l.pool.group.Targets() {
			target.SetMode(healthcheck.Maint, 0)
		}
		if address, _ := l.request(t).try(); address != "" {
			t.Errorf("served by %s in maintenance", address)
		}
	})
}
