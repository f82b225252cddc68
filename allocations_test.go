package loadbalance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// pipes is a listener of connections that exist in memory only.
type pipes struct {
	conns chan net.Conn
	done  context.Context
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return new(net.UnixAddr) }

// transport returns Caddy's HTTP transport to a server that answers at once.
func transport(t testing.TB, ctx caddy.Context) http.RoundTripper {
	t.Helper()
	p := pipes{make(chan net.Conn), t.Context()}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello"))
	})}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { _ = server.Close() })
	h := new(reverseproxy.HTTPTransport)
	if err := h.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	h.Transport.DialContext = p.dial
	return h
}

// proxies returns Caddy's own proxy and ours, with three upstreams, equal
// transports and equal passive health checks.
func proxies(t testing.TB, ctx caddy.Context, healthChecks string) map[string]caddyhttp.MiddlewareHandler {
	t.Helper()
	stock := &reverseproxy.Handler{
		Transport: transport(t, ctx),
		LoadBalancing: &reverseproxy.LoadBalancing{
			Retries: 5, SelectionPolicyRaw: json.RawMessage(`{"policy":"round_robin"}`),
		},
	}
	var passive struct {
		Passive *reverseproxy.PassiveHealthChecks
	}
	if err := json.Unmarshal([]byte(healthChecks), &passive); err != nil {
		t.Fatal(err)
	}
	stock.HealthChecks = &reverseproxy.HealthChecks{Passive: passive.Passive}
	ours := new(Handler)
	config := `{"health_checks":` + healthChecks + `,"upstreams":[`
	for i := range 3 {
		address := fmt.Sprintf("10.0.0.1:%d", i+1)
		stock.Upstreams = append(stock.Upstreams, &reverseproxy.Upstream{Dial: address})
		config += fmt.Sprintf(`{"dial":%q},`, address)
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(config, ",")+"]}"), ours); err != nil {
		t.Fatal(err)
	}
	ours.Transport = transport(t, ctx)
	for _, p := range []caddy.Provisioner{stock, ours} {
		if err := p.Provision(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = ours.Cleanup() })
	return map[string]caddyhttp.MiddlewareHandler{"stock": stock, "ours": ours}
}

// serve sends one request through a handler as Caddy's server does.
func serve(t testing.TB, h caddyhttp.MiddlewareHandler) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", nil).WithContext(ctx)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

// healthChecks are those with which ours is compared with Caddy's own proxy,
// which has the same passive ones.
var healthChecks = map[string]string{
	"active checks":      `{"active":{"protocol":"none"}}`,
	"and passive checks": `{"active":{"protocol":"none"},"passive":{"fail_duration":"10s","max_fails":3}}`,
}

// TestAllocations bounds what the handler adds to Caddy's own proxy, which
// allocates more if there is a log.
func TestAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("counts differ with coverage and the race detector")
	}
	logs := map[string]struct {
		context func(testing.TB) caddy.Context
		most    float64
	}{
		"no log": {quiet, 2},
		"a log":  {func(t testing.TB) caddy.Context { return logging(t, fileLog(t, "INFO")) }, -8},
	}
	for log, test := range logs {
		for checks, healthChecks := range healthChecks {
			t.Run(log+", "+checks, func(t *testing.T) {
				allocs := make(map[string]float64)
				for who, h := range proxies(t, test.context(t), healthChecks) {
					allocs[who] = testing.AllocsPerRun(2000, func() { serve(t, h) })
				}
				t.Logf("allocations per request: %v", allocs)
				if more := allocs["ours"] - allocs["stock"]; more > test.most {
					t.Errorf("%v allocations more than Caddy's proxy, want at most %v", more, test.most)
				}
			})
		}
	}
}
