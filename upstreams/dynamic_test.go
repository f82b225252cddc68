package upstreams

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// source is a dynamic source that returns a list, or that of the request's
// tenant.
type source struct {
	mu      sync.Mutex
	list    string
	tenants map[string]string
	asked   int
	ours    int // without a tenant
	resets  int
}

func (s *source) GetUpstreams(req *http.Request) ([]*reverseproxy.Upstream, error) {
	if req.Context().Value(caddy.ReplacerCtxKey) == nil {
		panic("no replacer")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	list := s.list
	if tenant := req.Header.Get("Tenant"); tenant != "" {
		list = s.tenants[tenant]
	} else if s.tenants != nil {
		s.ours++
	}
	if list == "error" {
		return nil, errors.New("no list")
	}
	var ups []*reverseproxy.Upstream
	for _, address := range strings.Fields(list) {
		ups = append(ups, &reverseproxy.Upstream{Dial: address})
	}
	return ups, nil
}

func (s *source) ResetCache(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets++
	return nil
}

func (s *source) says(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
}

// from makes a pool's upstreams those of a source.
func (s *source) from(static ...string) func(*PoolConfig) {
	return func(cfg *PoolConfig) {
		cfg.Upstreams = nil
		for _, address := range static {
			cfg.Upstreams = append(cfg.Upstreams, Config{Dial: address})
		}
		cfg.Source = s
		cfg.StartWait = 5 * time.Second
		cfg.Check.Interval = caddy.Duration(10 * time.Second)
	}
}

// rows returns the addresses and statuses of all upstreams.
func (l *lab) rows() string {
	synctest.Wait()
	var rows []string
	l.pool.Each(func(u Upstream) bool {
		rows = append(rows, u.Address[:1]+" "+u.Status.String())
		return true
	})
	return strings.Join(rows, ", ")
}

// as returns a request with a replacer, of a tenant.
func (l *lab) as(t *testing.T, tenant string) *attempt {
	a := l.request(t)
	if tenant != "" {
		a.req.Header.Set("Tenant", tenant)
	}
	return a
}

func TestDynamicUpstreamsAreCheckedBeforeTrafficNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1 c:1"}
		l := newLab(t, s.from())
		l.set(true, "b:1")
		l.start()
		if got := l.rows(); got != "a up, b down, c up" {
			t.Errorf("before any request: %s", got)
		}
		if got := fmt.Sprint(l.picks(t, 100)); got != "map[a:1:50 c:1:50]" {
			t.Errorf("picks %s", got)
		}
		s.says("a:1 c:1 d:1")
		time.Sleep(refreshEvery)
		if got := l.rows(); got != "a up, b down, c up, d up" {
			t.Errorf("after a refresh: %s", got)
		}
		if got := fmt.Sprint(l.picks(t, 300)); got != "map[a:1:100 c:1:100 d:1:100]" {
			t.Errorf("picks %s", got)
		}
		time.Sleep(unseenMost + 2*refreshEvery)
		if got := l.rows(); got != "a up, c up, d up" {
			t.Errorf("after b has not been seen for long: %s", got)
		}
		l.change(func() { clear(l.asked) })
		time.Sleep(time.Minute)
		l.change(func() {
			if l.asked["b:1"] != 0 || l.asked["a:1"] == 0 {
				t.Errorf("checks %v", l.asked)
			}
		})
	})
}

// An upstream that the source returns for the first time gets no request
// before its first passed check, for which the request waits.
func TestUnknownDynamicUpstreamsFollowStartWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1"}
		l := newLab(t, s.from())
		l.start()
		synctest.Wait()
		s.says("b:1")
		l.slowDown(800 * time.Millisecond)
		begin := time.Now()
		address, err := l.request(t).try()
		if took := time.Since(begin); address != "b:1" || err != nil || took != 1600*time.Millisecond {
			t.Errorf("%s, %v after %s", address, err, took)
		}
	})
}

// Only the list of this very request is eligible, also when others know more,
// and a source that depends on the request is never asked without one.
func TestTenantsAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{tenants: map[string]string{"one": "a:1 b:1", "two": "c:1 d:1", "none": ""}}
		l := newLab(t, func(cfg *PoolConfig) {
			s.from()(cfg)
			cfg.SourceDepends = true
			cfg.WhenAllDown = TryAll
		})
		l.start()
		var wg sync.WaitGroup
		for i := range 100 {
			tenant := []string{"one", "two", "none"}[i%3]
			wg.Go(func() {
				r := l.as(t, tenant)
				for range 10 { // whatever fails
					address, _ := r.try()
					if address != "" && !strings.Contains(s.tenants[tenant], address) {
						t.Errorf("tenant %s reached %s", tenant, address)
					}
				}
			})
			if i == 50 {
				l.set(true, all...)
			}
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if s.ours != 0 {
			t.Errorf("asked %d times without a request", s.ours)
		}
		if got := l.rows(); got != "a up, b up, c up, d up" {
			t.Errorf("unchecked: %s", got)
		}
		time.Sleep(unseenMost)
		if got := l.rows(); got != "" {
			t.Errorf("not seen for long: %s", got)
		}
	})
}

// The only upstream of a tenant is not ejected, whatever others have.
func TestOnlyUpstreamOfATenantIsNotEjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{tenants: map[string]string{"one": "a:1", "two": "b:1 c:1"}}
		l := newLab(t, func(cfg *PoolConfig) {
			s.from()(cfg)
			ejecting(1, time.Minute)(cfg)
			cfg.SourceDepends = true
		})
		l.start()
		l.change(func() { l.status["a:1"], l.status["b:1"] = 500, 500 })
		for range 10 {
			if address, _ := l.as(t, "one").try(); address != "a:1" {
				t.Fatalf("tenant one: %q", address)
			}
			_, _ = l.as(t, "two").try()
		}
		if l.in() != "ac" || l.asked["b:1"] != 1 {
			t.Errorf("in rotation: %s, requests %v", l.in(), l.asked)
		}
	})
}

func TestStaticUpstreamsServeOnAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "error"}
		l := newLab(t, s.from("d:1"))
		l.start()
		synctest.Wait()
		if address, _ := l.request(t).try(); address != "d:1" {
			t.Errorf("on an error: %s", address)
		}
		s.says("")
		r := l.request(t)
		if address, _ := r.try(); address != "" {
			t.Errorf("with an empty list: %s", address)
		}
		s.says("a:1")
		if address, _ := l.request(t).try(); address != "a:1" {
			t.Errorf("with a list: %s", address)
		}
	})
}

// A retry has the source forget what may have failed, and goes to another.
func TestDynamicRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1 c:1"}
		l := newLab(t, s.from())
		l.start()
		synctest.Wait()
		l.set(true, all...)
		l.slowDown(time.Millisecond)
		r := l.request(t)
		tried := make(map[string]int)
		for range 6 {
			address, _ := r.try()
			tried[address]++
		}
		if got := fmt.Sprint(tried); got != "map[:3 a:1:1 b:1:1 c:1:1]" {
			t.Errorf("tried %s", got)
		}
		if s.resets != 5 {
			t.Errorf("%d resets", s.resets)
		}
	})
}

func TestDynamicUpstreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []string
		for i := range maxDynamic + 100 {
			list = append(list, fmt.Sprintf("%d:1", i))
		}
		s := &source{list: strings.Join(list, " ")}
		l := newLab(t, func(cfg *PoolConfig) {
			s.from("d:1")(cfg)
			cfg.Check.Protocol = healthcheck.ProtocolNone
		})
		l.start()
		synctest.Wait()
		rows := 0
		l.pool.Each(func(Upstream) bool { rows++; return true })
		if rows != maxDynamic+1 {
			t.Errorf("%d upstreams", rows)
		}
		if address, err := l.request(t).try(); address == "" || err != nil {
			t.Errorf("%s, %v", address, err)
		}
	})
}

// What the older config knows about the upstreams of its source is not
// checked anew.
func TestDynamicUpstreamsOverReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		l := newLab(t, s.from())
		l.set(true, "b:1")
		l.start()
		if got := l.rows(); got != "a up, b down" {
			t.Fatal(got)
		}
		time.Sleep(time.Second)
		next := newLab(t, s.from())
		next.set(true, all...)
		next.start()
		if got := next.rows(); got != "a up, b down" {
			t.Errorf("in the new config: %s", got)
		}
		if len(next.asked) != 0 {
			t.Errorf("checked anew: %v", next.asked)
		}
		l.pool.Close()
		time.Sleep(20 * time.Second)
		if got := next.rows(); got != "a down, b down" {
			t.Errorf("checked no more: %s", got)
		}
	})
}

// Reloads do not keep alive what the source does not return any more.
func TestGoneUpstreamsOverReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		l := newLab(t, s.from())
		l.start()
		synctest.Wait()
		s.says("a:1")
		time.Sleep(unseenMost / 2)
		next := newLab(t, s.from())
		next.start()
		l.pool.Close()
		if got := next.rows(); got != "a up, b up" {
			t.Errorf("rows %s", got)
		}
		time.Sleep(unseenMost/2 + 2*refreshEvery)
		if got := next.rows(); got != "a up" {
			t.Errorf("rows %s", got)
		}
	})
}

// One that comes back after it was dropped is as unknown as any new one, also
// if no request came in between.
func TestGoneUpstreamsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "b:1"}
		l := newLab(t, s.from())
		l.start()
		if address, _ := l.request(t).try(); address != "b:1" {
			t.Errorf("got %q", address)
		}
		s.says("a:1")
		time.Sleep(unseenMost + 2*refreshEvery)
		if got := l.rows(); got != "a up" {
			t.Errorf("rows %s", got)
		}
		l.set(true, "b:1")
		s.says("b:1")
		if address, _ := l.request(t).try(); address != "" {
			t.Errorf("got %q, which is down", address)
		}
		if got := l.rows(); got != "a up, b down" {
			t.Errorf("rows %s", got)
		}
	})
}

// What a request has made known before the pool has its final name stays with
// the pool.
func TestDynamicUpstreamsOfRenamedPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		first := newLab(t, s.from())
		cfg := first.pool.cfg
		pool, _, err := NewPool(cfg, first) // in the same config
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		second := &lab{backends: first.backends, pool: pool}
		var wg sync.WaitGroup
		wg.Go(func() {
			if address, err := second.request(t).try(); address == "" || err != nil {
				t.Errorf("%q, %v", address, err)
			}
		})
		synctest.Wait()
		first.start()
		wg.Wait()
		if name, rows := pool.Name(), second.rows(); name != "dynamic#2" || rows != "a up, b up" {
			t.Errorf("pool %s: %s", name, rows)
		}
		s.says("a:1 c:1")
		time.Sleep(unseenMost + 2*refreshEvery)
		if rows, n := second.rows(), len(pool.group.Targets()); rows != "a up, c up" || n != 2 {
			t.Errorf("%s, %d targets", rows, n)
		}
	})
}

// A list that was the latest asked for does not bring back upstreams that
// have been dropped since: they are made known anew, and checked.
func TestDroppedUpstreamsAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		l := newLab(t, s.from())
		l.start()
		l.picks(t, 2)
		s.says("c:1")
		time.Sleep(unseenMost + 2*refreshEvery)
		if got := l.rows(); got != "c up" {
			t.Fatal(got)
		}
		s.says("a:1 b:1")
		l.set(true, "a:1")
		for range 10 {
			if address, err := l.request(t).try(); address != "b:1" || err != nil {
				t.Errorf("served by %q, %v", address, err)
			}
		}
		if got := l.rows(); got != "a down, b up, c up" {
			t.Error(got)
		}
	})
}

// What a request has made known before the pool got its final name stays
// known, once, under that name.
func TestDynamicUpstreamsOfRenamedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{list: "a:1 b:1"}
		config := func(cfg *PoolConfig) {
			s.from()(cfg)
			cfg.Name, cfg.Check.Protocol = "twin", healthcheck.ProtocolNone
		}
		first := newLab(t, config)
		second := newLab(t, config, first)
		if address, err := second.request(t).try(); address == "" || err != nil {
			t.Fatalf("%q, %v", address, err)
		}
		first.start()
		if got, name := second.rows(), second.pool.Name(); got != "a up, b up" || name != "twin#2" {
			t.Errorf("%s: %s", name, got)
		}
		second.picks(t, 2)
		if n := len(second.pool.group.Targets()); n != 2 {
			t.Errorf("%d targets", n)
		}
		key := accountKey{"twin#2", "a:1"}
		acc := openAccount(key) // as a newer config does
		defer closeAccount(key)
		if n := acc.requests.Load(); n != 1 {
			t.Errorf("%d requests in the books", n)
		}
		second.pool.Close()
		if n, _ := accounts.References(key); n != 1 {
			t.Errorf("%d hold the account, of 1", n)
		}
		if n, _ := accounts.References(accountKey{"twin", "a:1"}); n != 1 {
			t.Errorf("%d hold the other pool's, of 1", n)
		}
	})
}

// While the pool is full, what is not used costs nothing but the asking.
func TestFullPoolIsNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := "x:1"
		for i := range maxDynamic {
			list = fmt.Sprintf("%s %d:1", list, i)
		}
		s := &source{list: list}
		l := newLab(t, func(cfg *PoolConfig) {
			s.from()(cfg)
			cfg.Check.Protocol = healthcheck.ProtocolNone
		})
		l.start()
		synctest.Wait()
		before := l.pool.places.Load()
		if l.pool.admit([]*reverseproxy.Upstream{{Dial: "unused:1"}}); l.pool.places.Load() != before {
			t.Error("copied")
		}
	})
}
