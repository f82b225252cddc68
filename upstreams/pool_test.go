package upstreams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// backends is a transport that plays the backends of a test, by address.
type backends struct {
	mu sync.Mutex
	// sick ones fail, after slow; hung ones answer nothing; shut ones take no
	// new requests.
	sick, hung, shut map[string]bool
	// idle ones close connections just as they are used.
	idle  map[string]bool
	slow  time.Duration
	asked map[string]int
	// status is what those answer that are neither, 200 if it is zero, checks
	// excepted.
	status map[string]int
	// body is the response body of all.
	body io.ReadCloser
	// seen are the contexts of the requests, checks excepted.
	seen []context.Context
}

func (b *backends) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := reverseproxy.GetDialInfo(req.Context())
	b.mu.Lock()
	b.asked[info.Address]++
	sick, idle, slow := b.sick[info.Address], b.idle[info.Address], b.slow
	if b.hung[info.Address] {
		slow = time.Hour
	}
	status := b.status[info.Address]
	check := req.Header.Get("User-Agent") != ""
	if status == 0 || check {
		status = http.StatusOK
	}
	if !check {
		b.seen = append(b.seen, req.Context())
	}
	body, shut := b.body, b.shut[info.Address]
	b.mu.Unlock()
	if shut {
		return nil, reverseproxy.NewDialError(syscall.ECONNREFUSED)
	}
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
	}
	if sick {
		return nil, reverseproxy.NewDialError(errors.New("refused"))
	}
	if idle {
		return nil, errors.New("http: server closed idle connection")
	}
	return &http.Response{StatusCode: status, Body: body, Request: req}, nil
}

// change changes what the backends do.
func (b *backends) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *backends) set(sick bool, addresses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range addresses {
		b.sick[a] = sick
	}
}

func (b *backends) slowDown(slow time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow = slow
}

// lab is a pool of four upstreams a:1 to d:1 under synctest.
type lab struct {
	*backends
	pool  *Pool
	start func()
	stop  context.CancelFunc
}

var all = []string{"a:1", "b:1", "c:1", "d:1"}

// newLab returns a lab of a config of its own, or of that of another lab, if
// one is given.
func newLab(t *testing.T, change func(*PoolConfig), same ...*lab) *lab {
	t.Helper()
	l := &lab{backends: &backends{
		sick: make(map[string]bool), hung: make(map[string]bool), idle: make(map[string]bool), asked: make(map[string]int),
		shut: make(map[string]bool), status: make(map[string]int), body: http.NoBody,
	}}
	ctx, cancel := context.WithCancel(t.Context())
	zero := 0
	cfg := PoolConfig{
		Check:     healthcheck.Config{Protocol: healthcheck.ProtocolHTTP, Jitter: &zero},
		Transport: l, Context: ctx, Logger: zap.NewNop(), SingleRound: true,
		Retry: &reverseproxy.LoadBalancing{Retries: 5},
	}
	for _, address := range all {
		cfg.Upstreams = append(cfg.Upstreams, Config{Dial: address})
	}
	if change != nil {
		change(&cfg)
	}
	pool, generation, err := NewPool(cfg, append(same, l)[0])
	if err != nil {
		t.Fatal(err)
	}
	l.pool, l.stop = pool, cancel
	if generation != nil {
		l.start = generation.Start
	}
	t.Cleanup(func() { cancel(); pool.Close() })
	return l
}

// attempt is one request in the proxy's loop.
type attempt struct {
	pool   *Pool
	req    *http.Request
	record *Request
}

func (l *lab) request(t *testing.T) *attempt {
	a := l.begin(t.Context())
	t.Cleanup(a.record.End)
	return a
}

// begin begins a request with that context.
func (l *lab) begin(ctx context.Context) *attempt {
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, make(map[string]any))
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	req := (&http.Request{Method: http.MethodGet, URL: new(url.URL), Header: make(http.Header)}).WithContext(ctx)
	return &attempt{l.pool, req, l.pool.Begin(ctx)}
}

// try makes one attempt and returns the upstream's address, "" for none.
func (a *attempt) try() (string, error) {
	address, _, err := a.answer()
	return address, err
}

// answer is try with the response.
func (a *attempt) answer() (string, *http.Response, error) {
	up := a.pool.Select(nil, a.req, nil)
	if up == nil {
		return "", nil, nil
	}
	a.req.URL.Host = up.Dial // as Caddy's proxy directs it
	info := reverseproxy.DialInfo{Upstream: up, Address: up.Dial}
	req := a.req.WithContext(context.WithValue(a.req.Context(), caddy.CtxKey("reverse_proxy.dial_info"), info))
	resp, err := a.pool.Observe(a.pool.cfg.Transport).RoundTrip(req)
	return up.Dial, resp, err
}

// in returns the addresses in rotation.
func (l *lab) in() string {
	synctest.Wait()
	list := ""
	l.pool.Each(func(u Upstream) bool {
		if u.InRotation {
			list += u.Address[:1]
		}
		return true
	})
	return list
}

// picks returns how often each upstream is picked by n requests.
func (l *lab) picks(t *testing.T, n int) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for range n {
		address, err := l.request(t).try()
		if err != nil {
			t.Fatal(err)
		}
		counts[address]++
	}
	return counts
}

func TestEveryNthRequestExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		synctest.Wait()
		var order []string
		for range 12 {
			address, _ := l.request(t).try()
			order = append(order, address)
		}
		want := "[b:1 c:1 d:1 a:1 b:1 c:1 d:1 a:1 b:1 c:1 d:1 a:1]" // begins like Caddy's round_robin
		if got := fmt.Sprint(order); got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	})
}

func TestOnlyUpstreamsInRotationArePicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.set(true, "b:1")
		l.start()
		synctest.Wait()
		counts := l.picks(t, 300)
		if counts["b:1"] != 0 || counts["a:1"] != 100 || counts["c:1"] != 100 || counts["d:1"] != 100 {
			t.Errorf("picks %v", counts)
		}
	})
}

func TestRetryTriesEveryUpstreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		synctest.Wait()
		l.set(true, all...)
		l.slowDown(time.Millisecond) // so that no check ends before the last retry
		r := l.request(t)
		tried := make(map[string]int)
		for range 6 {
			address, err := r.try()
			if address != "" && err == nil {
				t.Fatal("a sick backend answered")
			}
			tried[address]++
			if address == "" {
				break
			}
		}
		for _, address := range all {
			if tried[address] > 1 {
				t.Errorf("%s tried %d times", address, tried[address])
			}
		}
		if tried[""] != 1 {
			t.Errorf("no end after a round: %v", tried)
		}
	})
}

func TestFurtherRoundsAvoidTheLastOneTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.SingleRound = false
			cfg.Check.Protocol = healthcheck.ProtocolNone // stay up whatever happens
		})
		l.start()
		l.set(true, all...)
		r := l.request(t)
		last := ""
		counts := make(map[string]int)
		for range 40 {
			address, _ := r.try()
			if address == last {
				t.Fatalf("%s twice in a row", address)
			}
			last = address
			counts[address]++
		}
		for _, address := range all {
			if counts[address] != 10 {
				t.Errorf("tried %v", counts)
			}
		}
	})
}

func TestStartWait(t *testing.T) {
	for _, tc := range []struct {
		name             string
		checks, wait     time.Duration
		sick             bool
		served           bool
		earliest, latest time.Duration
	}{
		{name: "t653 first result in time", checks: 800 * time.Millisecond, wait: 5 * time.Second, served: true, earliest: 800 * time.Millisecond, latest: 800 * time.Millisecond},
		{name: "first result too late", checks: 2 * time.Second, wait: time.Second, earliest: time.Second, latest: time.Second},
		{name: "no waiting", checks: 2 * time.Second, wait: 0},
		{name: "all fail", checks: 300 * time.Millisecond, wait: 5 * time.Second, sick: true, earliest: 300 * time.Millisecond, latest: 400 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, func(cfg *PoolConfig) { cfg.StartWait = tc.wait })
				l.slow = tc.checks
				l.set(tc.sick, all...)
				l.start()
				begin := time.Now()
				up := l.pool.Select(nil, l.request(t).req, nil)
				took := time.Since(begin)
				if (up != nil) != tc.served || took < tc.earliest || took > tc.latest {
					t.Errorf("upstream %v after %s", up, took)
				}
			})
		})
	}
}

func TestWaitingEndsWithTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.StartWait = 5 * time.Second })
		l.slow = time.Second * 4
		l.start()
		time.AfterFunc(time.Second, l.stop)
		begin := time.Now()
		if up := l.pool.Select(nil, l.request(t).req, nil); up != nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", up, time.Since(begin))
		}
	})
}

func TestAtMostAThousandWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.StartWait = 5 * time.Second })
		l.slow = time.Second
		l.start()
		var mu sync.Mutex
		answered := make(map[time.Duration]int)
		begin := time.Now()
		for range maxWaiting + 50 {
			r := l.request(t)
			go func() {
				l.pool.Select(nil, r.req, nil)
				mu.Lock()
				answered[time.Since(begin)]++
				mu.Unlock()
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if answered[time.Second] != maxWaiting || answered[0] != 50 {
			t.Errorf("answered after: %v", answered)
		}
	})
}

func TestNothingInRotationAsksForChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.set(true, all...)
		l.start()
		time.Sleep(3 * time.Second) // the next check is due at 10 s
		l.set(false, "c:1")
		address, err := l.request(t).try()
		if address != "c:1" || err != nil {
			t.Errorf("served by %q, %v", address, err)
		}
	})
}

// A request that comes just after a check has passed waits for the rotation to
// follow.
func TestRequestWaitsForTheRotationToFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.set(true, all...)
		l.start()
		time.Sleep(3 * time.Second)
		l.set(false, "c:1")
		l.pool.rebuilds.Store(1) // as if a rebuild was going on
		for _, target := range l.pool.group.Targets() {
			target.CheckNow()
		}
		synctest.Wait()
		time.AfterFunc(10*time.Millisecond, func() {
			l.pool.rebuilds.Store(0)
			l.pool.Changed()
		})
		if address, _ := l.request(t).try(); address != "c:1" {
			t.Errorf("served by %q", address)
		}
	})
}

func TestNothingInRotationGivesUpOnceARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.set(true, all...)
		l.start()
		time.Sleep(3 * time.Second)
		l.slowDown(time.Second)
		begin := time.Now()
		r := l.request(t)
		for range 6 { // Caddy's proxy counts rounds without upstream as retries
			if address, _ := r.try(); address != "" {
				t.Fatal("served by " + address)
			}
		}
		if took := time.Since(begin); took != askWait {
			t.Errorf("gave up after %s, want %s", took, askWait)
		}
		if !r.record.Unserved() {
			t.Error("not marked as unserved")
		}
		if s := l.pool.RetryAfter(); s != 7 { // the next check is due at 10 s
			t.Errorf("Retry-After %d, want 7", s)
		}
	})
}

func TestTryAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.WhenAllDown = TryAll })
		l.set(true, all...)
		l.start()
		time.Sleep(time.Second)
		tried := make(map[string]bool)
		r := l.request(t)
		for range 4 {
			address, _ := r.try()
			tried[address] = true
		}
		if len(tried) != 4 || tried[""] {
			t.Errorf("tried %v", tried)
		}

		l.slowDown(time.Hour) // of checks that hang, a request waits once
		begin := time.Now()
		r = l.request(t)
		for range 4 {
			l.pool.Select(nil, r.req, nil)
		}
		if took := time.Since(begin); took > askWait {
			t.Errorf("waited %s", took)
		}
	})
}

// An upstream without weight gets no requests though it is up: it neither
// counts as one in rotation nor makes up for one that is retired.
func TestNoWeightNoRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.Weights = []int{1, 0, 0, 0}
			cfg.Check.MaxFailures = 2
		})
		l.start()
		time.Sleep(time.Second)
		l.set(true, "a:1")
		time.Sleep(time.Minute)
		if status := l.pool.group.Targets()[0].Status(); status != healthcheck.Down {
			t.Errorf("the only one with weight is %s", status)
		}
		r := l.request(t)
		if address, _ := r.try(); address != "" || !r.record.Unserved() {
			t.Errorf("served by %q", address)
		}
		l.pool.Each(func(u Upstream) bool {
			if u.InRotation {
				t.Errorf("%s is in rotation", u.Address)
			}
			return true
		})
	})
}

// The weights are those of the policy, if it has some, else the upstreams'
// own, 1 if not given.
func TestWeights(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy []int
		own    []int
		want   [4]int
	}{
		{name: "none", want: [4]int{1, 1, 1, 1}},
		{name: "empty", policy: []int{}, want: [4]int{1, 1, 1, 1}},
		{name: "upstreams", own: []int{5, 0, 2, 1}, want: [4]int{5, 1, 2, 1}},
		{name: "policy", policy: []int{5, 1, 0}, want: [4]int{5, 1, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, func(cfg *PoolConfig) {
					cfg.Weights = tc.policy
					for i, w := range tc.own {
						cfg.Upstreams[i].Weight = w
					}
				})
				l.start()
				synctest.Wait()
				sum := 0
				for _, w := range tc.want {
					sum += w
				}
				counts := l.picks(t, 10*sum)
				for i, address := range all {
					if counts[address] != 10*tc.want[i] {
						t.Errorf("%s picked %d times of %d, weights %v", address, counts[address], 10*sum, tc.want)
					}
				}
			})
		})
	}
}

func TestRoundsGoOnWithoutThoseOfNoWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.Weights = []int{1, 1, 0, 0}
			cfg.SingleRound = false
			cfg.Check.Protocol = healthcheck.ProtocolNone
		})
		l.start()
		l.set(true, all...)
		r := l.request(t)
		for range 6 {
			if address, _ := r.try(); address != "a:1" && address != "b:1" {
				t.Fatalf("tried %q", address)
			}
		}
	})
}

func TestAddressGivenTwiceHasTwoTurnsAndOneTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Upstreams = append(cfg.Upstreams, Config{Dial: "a:1"}) })
		l.start()
		synctest.Wait()
		if n := l.asked["a:1"]; n != 1 {
			t.Errorf("a:1 checked %d times at the start", n)
		}
		if counts := l.picks(t, 500); counts["a:1"] != 200 || counts["b:1"] != 100 {
			t.Errorf("picks %v", counts)
		}
		rows := 0
		l.pool.Each(func(u Upstream) bool {
			rows++
			if u.Address == "a:1" && u.Weight != 2 {
				t.Errorf("weight %d", u.Weight)
			}
			return true
		})
		if rows != 4 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestDialErrorTakesUpstreamOutWithinTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		time.Sleep(time.Second)
		l.set(true, "a:1")
		for range 4 {
			_, _ = l.request(t).try()
		}
		synctest.Wait()
		if status := l.pool.group.Targets()[0].Status(); status != healthcheck.Down {
			t.Errorf("status %s", status)
		}
	})
}

// A status may change while a pool is being made, which follows what an older
// config knows.
func TestPoolInTheMakingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		p := new(Pool)
		p.Changed()
		p.Left(l.pool.group.Targets()[0], false)
	})
}
