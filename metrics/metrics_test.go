package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// backends is a transport to backends whose checks and answers take 30 ms and
// have the status 200, unless another one is set.
type backends struct {
	mu     sync.Mutex
	status map[string]int
}

func (b *backends) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(30 * time.Millisecond)
	info, _ := reverseproxy.GetDialInfo(req.Context())
	b.mu.Lock()
	defer b.mu.Unlock()
	status := http.StatusOK
	if s, ok := b.status[info.Address]; ok {
		status = s
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
}

func (b *backends) set(address string, status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status[address] = status
}

// config is the pools of a Caddy config, with its registry.
type config struct {
	backends
	registry *prometheus.Registry
	start    func()
	pools    []*upstreams.Pool
}

// newConfig makes a config. Each pool is given by its name and its addresses.
func newConfig(t testing.TB, change func(*upstreams.PoolConfig), pools ...[]string) *config {
	t.Helper()
	c := &config{registry: prometheus.NewPedanticRegistry(), start: func() {}}
	c.status = make(map[string]int)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); c.close() })
	for _, p := range pools {
		zero := 0
		cfg := upstreams.PoolConfig{
			Name:      p[0],
			Check:     healthcheck.Config{Protocol: healthcheck.ProtocolHTTP, Jitter: &zero},
			Transport: c, Context: ctx, Logger: zap.NewNop(),
		}
		cfg.Check.URI = "/"
		for _, address := range p[1:] {
			cfg.Upstreams = append(cfg.Upstreams, upstreams.Config{Dial: address})
		}
		if change != nil {
			change(&cfg)
		}
		pool, generation, err := upstreams.NewPool(cfg, c)
		if err != nil {
			t.Fatal(err)
		}
		if generation != nil {
			c.start = generation.Start
		}
		c.pools = append(c.pools, pool)
		if err := Register(c.registry); err != nil { // as every handler does
			t.Fatal(err)
		}
	}
	return c
}

func (c *config) close() {
	for _, pool := range c.pools {
		pool.Close()
	}
}

// scrape returns the answer of a config's endpoint, without the comments.
func (c *config) scrape(t *testing.T) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// want fails the test unless the answer has all those lines.
func (c *config) want(t *testing.T, lines ...string) {
	t.Helper()
	got := c.scrape(t)
	for _, line := range lines {
		if !slices.Contains(got, line) {
			t.Errorf("no line %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
}

// about returns the lines with that text.
func about(lines []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, text) })
}

// send sends a request as Caddy's proxy does, with a retry if there has to be.
func (c *config) send(t *testing.T, attempts int) {
	t.Helper()
	pool := c.pools[0]
	ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, make(map[string]any))
	record := pool.Begin(ctx)
	defer record.End()
	req := (&http.Request{Method: http.MethodGet, URL: new(url.URL), Header: make(http.Header)}).WithContext(ctx)
	for range attempts {
		up := pool.Select(nil, req, nil)
		if up == nil {
			return
		}
		req.URL.Host = up.Dial
		info := reverseproxy.DialInfo{Upstream: up, Address: up.Dial}
		attempt := req.WithContext(context.WithValue(ctx, caddy.CtxKey("reverse_proxy.dial_info"), info))
		if _, err := pool.Observe(c).RoundTrip(attempt); err != nil {
			t.Error(err)
		}
	}
}

// All series of an upstream, to the last one.
func TestEverySeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil, []string{"web", "a:1"})
		c.start()
		time.Sleep(time.Second)
		c.send(t, 1)
		c.set("a:1", http.StatusServiceUnavailable)
		c.send(t, 2)
		time.Sleep(5 * time.Second) // the second check
		c.send(t, 1)
		want := `
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.001"} 0
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.005"} 0
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.01"} 0
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.025"} 0
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.05"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.1"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.25"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="0.5"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="1"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="2.5"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="5"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="10"} 3
caddy_load_balance_check_duration_seconds_bucket{pool="web",upstream="a:1",le="+Inf"} 3
caddy_load_balance_check_duration_seconds_sum{pool="web",upstream="a:1"} 0.09
caddy_load_balance_check_duration_seconds_count{pool="web",upstream="a:1"} 3
caddy_load_balance_checks_total{pool="web",result="failed",upstream="a:1"} 2
caddy_load_balance_checks_total{pool="web",result="passed",upstream="a:1"} 1
caddy_load_balance_checks_total{pool="web",result="void",upstream="a:1"} 0
caddy_load_balance_in_flight{pool="web",upstream="a:1"} 0
caddy_load_balance_next_check_timestamp_seconds{pool="web",upstream="a:1"} 9.4668481506e+08
caddy_load_balance_no_upstream_total{pool="web"} 1
caddy_load_balance_requests_total{outcome="canceled",pool="web",upstream="a:1"} 0
caddy_load_balance_requests_total{outcome="error_status",pool="web",upstream="a:1"} 2
caddy_load_balance_requests_total{outcome="failed",pool="web",upstream="a:1"} 0
caddy_load_balance_requests_total{outcome="rescued",pool="web",upstream="a:1"} 0
caddy_load_balance_requests_total{outcome="success",pool="web",upstream="a:1"} 1
caddy_load_balance_retries_total{pool="web",upstream="a:1"} 1
caddy_load_balance_transitions_total{from="down",pool="web",to="retired",upstream="a:1"} 0
caddy_load_balance_transitions_total{from="down",pool="web",to="up",upstream="a:1"} 0
caddy_load_balance_transitions_total{from="ejected",pool="web",to="up",upstream="a:1"} 0
caddy_load_balance_transitions_total{from="retired",pool="web",to="down",upstream="a:1"} 0
caddy_load_balance_transitions_total{from="unknown",pool="web",to="down",upstream="a:1"} 0
caddy_load_balance_transitions_total{from="unknown",pool="web",to="up",upstream="a:1"} 1
caddy_load_balance_transitions_total{from="up",pool="web",to="down",upstream="a:1"} 1
caddy_load_balance_transitions_total{from="up",pool="web",to="ejected",upstream="a:1"} 0
caddy_load_balance_upstream_in_rotation{pool="web",upstream="a:1"} 0
caddy_load_balance_upstream_status{pool="web",status="down",upstream="a:1"} 1
caddy_load_balance_upstream_status{pool="web",status="retired",upstream="a:1"} 0
caddy_load_balance_upstream_status{pool="web",status="unknown",upstream="a:1"} 0
caddy_load_balance_upstream_status{pool="web",status="up",upstream="a:1"} 0`
		if got := "\n" + strings.Join(c.scrape(t), "\n"); got != want {
			t.Errorf("got%s\nwant%s", got, want)
		}
	})
}

// An upstream in maintenance has no next check, and its transition to unknown
// is there once it happened.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil, []string{"web", "a:1"})
		c.start()
		time.Sleep(time.Second)
		var target *healthcheck.Target
		c.pools[0].Each(func(u upstreams.Upstream) bool { target = u.Target; return true })
		target.SetMode(healthcheck.Maint, 0)
		if lines := about(c.scrape(t), "next_check"); len(lines) != 0 {
			t.Errorf("%v", lines)
		}
		target.SetMode(healthcheck.Ready, 0)
		time.Sleep(time.Second)
		c.want(t,
			`caddy_load_balance_transitions_total{from="up",pool="web",to="unknown",upstream="a:1"} 1`,
			`caddy_load_balance_transitions_total{from="unknown",pool="web",to="up",upstream="a:1"} 2`,
		)
	})
}

// What is never checked has no series about checks.
func TestUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, func(cfg *upstreams.PoolConfig) {
			cfg.Check = healthcheck.Config{Protocol: healthcheck.ProtocolNone}
		}, []string{"web", "a:1"})
		c.start()
		if lines := about(c.scrape(t), "check"); len(lines) != 0 {
			t.Errorf("%v", lines)
		}
		c.want(t, `caddy_load_balance_upstream_status{pool="web",status="up",upstream="a:1"} 1`)
	})
}

// Two configs are alive at a reload: both endpoints show the newer one, each
// series once, and counts go on. What was removed is gone.
func TestTwoGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := newConfig(t, nil, []string{"web", "a:1", "b:1"}, []string{"api", "a:1"})
		if lines := older.scrape(t); len(lines) != 0 {
			t.Errorf("before the start: %v", lines)
		}
		older.start()
		time.Sleep(time.Second)
		older.send(t, 1) // to b
		older.send(t, 1) // to a
		another := func(cfg *upstreams.PoolConfig) { cfg.Check.URI = "/another" }
		newer := newConfig(t, another, []string{"web", "a:1"}, []string{"web", "c:1"})
		if got, want := fmt.Sprint(newer.scrape(t)), fmt.Sprint(older.scrape(t)); got != want {
			t.Errorf("before its start the newer one shows %s, the older one %s", got, want)
		}
		newer.start()
		time.Sleep(time.Second)
		for when, c := range map[string]*config{"older": older, "newer": newer} {
			lines := c.scrape(t)
			for _, gone := range []string{`pool="api"`, "b:1"} {
				if left := about(lines, gone); len(left) != 0 {
					t.Errorf("%s: %v", when, left)
				}
			}
			c.want(t,
				`caddy_load_balance_requests_total{outcome="success",pool="web",upstream="a:1"} 1`,
				`caddy_load_balance_checks_total{pool="web",result="passed",upstream="a:1"} 2`,
				`caddy_load_balance_checks_total{pool="web#2",result="passed",upstream="c:1"} 1`,
			)
		}
		older.close()
		newer.want(t, `caddy_load_balance_requests_total{outcome="success",pool="web",upstream="a:1"} 1`)
		newer.close()
		if lines := newer.scrape(t); len(lines) != 0 {
			t.Errorf("after the end: %v", lines)
		}
	})
}

// Whatever pools and addresses are called, the endpoint answers, and has each
// series once.
func TestHostileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil,
			[]string{"quote\" back\\slash\nline", "a:1", "a\xff:1", "a\xfe:1", "", "__name__"},
			[]string{"\xff", "a:1", "b:1"},
			[]string{"\xfe", "a:1", "c:1"}, // the same once it is valid
			[]string{"{}#=,", strings.Repeat("long", 1000) + ":1"},
			[]string{"", "ü:1"},
		)
		c.start()
		time.Sleep(time.Second)
		lines := c.scrape(t)
		ups := about(lines, "in_rotation")
		if len(ups) != 4+3+1+1 {
			t.Errorf("%d upstreams: %q", len(ups), ups)
		}
		if pools := about(lines, "no_upstream"); len(pools) != 4 {
			t.Errorf("%d pools: %q", len(pools), pools)
		}
		for _, line := range []string{
			`caddy_load_balance_upstream_in_rotation{pool="quote\" back\\slash\nline",upstream="a:1"} 1`,
			`caddy_load_balance_upstream_in_rotation{pool="quote\" back\\slash\nline",upstream="a` + "\uFFFD" + `:1"} 1`,
			`caddy_load_balance_upstream_in_rotation{pool="ü:1",upstream="ü:1"} 1`,
		} {
			if !slices.Contains(lines, line) {
				t.Errorf("no line %s in %q", line, ups)
			}
		}
	})
}

// impostor has the same series as the collector.
type impostor struct{ poolCollector }

func TestRegister(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for range 3 {
		if err := Register(registry); err != nil {
			t.Error(err)
		}
	}
	taken := prometheus.NewPedanticRegistry()
	taken.MustRegister(impostor{})
	if err := Register(taken); err == nil {
		t.Error("registered beside another collector of the same series")
	}
	partly := prometheus.NewPedanticRegistry()
	partly.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "in_flight"}))
	if err := Register(partly); err == nil {
		t.Error("registered beside another metric of the same name")
	}
}

// Scrapes, requests, and configs that come and go at the same time.
func TestScrapesWhileAllChanges(t *testing.T) {
	c := newConfig(t, nil, []string{"web", "a:1", "b:1"}, []string{"api", "a:1"})
	c.start()
	for slices.Contains(c.scrape(t), `caddy_load_balance_upstream_in_rotation{pool="web",upstream="a:1"} 0`) {
		time.Sleep(time.Millisecond)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	sent := 0
	for _, act := range []func(){
		func() { c.scrape(t) },
		func() { c.send(t, 1); sent++ },
	} {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					act()
				}
			}
		})
	}
	for i := range 30 {
		next := newConfig(t, nil, []string{"web", "a:1", fmt.Sprintf("c:%d", i)}, []string{"web", "a:1"})
		next.start()
		time.Sleep(time.Millisecond)
		next.close()
	}
	close(stop)
	others.Wait()
	booked := 0
	c.pools[0].Each(func(u upstreams.Upstream) bool {
		booked += int(u.Outcomes[upstreams.Success])
		return true
	})
	if booked != sent {
		t.Errorf("%d requests booked, %d sent", booked, sent)
	}
}
