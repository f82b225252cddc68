package loadbalance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// quiet is a Caddy config that logs nothing.
func quiet(t testing.TB) caddy.Context {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// answering is a transport whose backend answers at once.
type answering struct{}

func (answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: http.NoBody, Request: req,
	}, nil
}

func TestCleanupSurvivesWhateverHappenedBefore(t *testing.T) {
	if err := new(Handler).Cleanup(); err != nil {
		t.Errorf("never provisioned: %v", err)
	}
	bad := new(Handler)
	bad.TransportRaw = json.RawMessage(`{"protocol":"no such transport"}`)
	if err := bad.Provision(quiet(t)); err == nil {
		t.Error("provisioned with an unknown transport")
	}
	if err := bad.Cleanup(); err != nil {
		t.Errorf("after a failed Provision: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct{ name, config, field string }{
		{"nothing", `{}`, ""},
		{"fail/max_requests negative", `{"upstreams":[{"dial":"a:1"},{"dial":"b:1","max_requests":-1}]}`, "upstreams[1].max_requests"},
		{"fail/retries negative", `{"load_balancing":{"retries":-1}}`, "load_balancing.retries"},
		{"retries zero", `{"load_balancing":{"retries":0}}`, ""},
		{"fail/start_wait negative", `{"start_wait":-1}`, "start_wait"},
		{"start_wait zero", `{"start_wait":0}`, ""},
		{"fail/when_all_down unknown", `{"when_all_down":"502"}`, "when_all_down"},
		{"fail/protocol unknown", `{"health_checks":{"active":{"protocol":"icmp"}}}`, "health_checks.active.protocol"},
		{"protocol grpc", `{"health_checks":{"active":{"protocol":"grpc"}}}`, ""},
		{"service", `{"health_checks":{"active":{"protocol":"grpc","service":"my.Service"}}}`, ""},
		{"fail/service over tcp", `{"health_checks":{"active":{"protocol":"tcp","service":"my.Service"}}}`, "health_checks.active.service"},
		{"fail/service over the default", `{"health_checks":{"active":{"service":"my.Service"}}}`, "health_checks.active.service"},
		{"fail/interval negative", `{"health_checks":{"active":{"interval":"-1s"}}}`, "health_checks.active.interval"},
		{"fail/timeout negative", `{"health_checks":{"active":{"timeout":"-1s"}}}`, "health_checks.active.timeout"},
		{"fail/increment negative", `{"health_checks":{"active":{"increment":"-1s"}}}`, "health_checks.active.increment"},
		{"increment zero", `{"health_checks":{"active":{"increment":0}}}`, ""},
		{"fail/max_interval below default interval", `{"health_checks":{"active":{"max_interval":"4s"}}}`, "health_checks.active.max_interval"},
		{"fail/max_interval below interval", `{"health_checks":{"active":{"interval":"2m","max_interval":"1m"}}}`, "health_checks.active.max_interval"},
		{"interval above the default maximum", `{"health_checks":{"active":{"interval":"2m"}}}`, ""},
		{"fail/jitter above 100", `{"health_checks":{"active":{"jitter":101}}}`, "health_checks.active.jitter"},
		{"jitter zero", `{"health_checks":{"active":{"jitter":0}}}`, ""},
		{"fail/max_failures", `{"health_checks":{"active":{"max_failures":-2}}}`, "health_checks.active.max_failures"},
		{"max_failures never", `{"health_checks":{"active":{"max_failures":-1}}}`, ""},
		{"fail/readmit_after", `{"health_checks":{"active":{"readmit_after":-2}}}`, "health_checks.active.readmit_after"},
		{"readmit_after never", `{"health_checks":{"active":{"readmit_after":-1}}}`, ""},
		{"fail/port", `{"health_checks":{"active":{"port":65536}}}`, "health_checks.active.port"},
		{"fail/expect_body", `{"health_checks":{"active":{"expect_body":"("}}}`, "health_checks.active.expect_body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := new(Handler)
			if err := caddy.StrictUnmarshalJSON([]byte(tc.config), h); err != nil {
				t.Fatal(err)
			}
			err := h.Validate()
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.field != "" && err == nil:
				t.Error("accepted")
			case tc.field != "" && !strings.HasPrefix(err.Error(), tc.field+":"):
				t.Errorf("the error does not begin with %s: %v", tc.field, err)
			}
		})
	}
}

// proxies returns Caddy's own proxy and ours, with three upstreams and the
// same transport.
func proxies(t testing.TB) map[string]caddyhttp.MiddlewareHandler {
	t.Helper()
	ctx := quiet(t)
	stock := &reverseproxy.Handler{
		Transport: answering{},
		LoadBalancing: &reverseproxy.LoadBalancing{
			Retries: 5, SelectionPolicyRaw: json.RawMessage(`{"policy":"round_robin"}`),
		},
	}
	ours := new(Handler)
	config := `{"health_checks":{"active":{"protocol":"none"}},"upstreams":[`
	for i := range 3 {
		address := fmt.Sprintf("10.0.0.1:%d", i+1)
		stock.Upstreams = append(stock.Upstreams, &reverseproxy.Upstream{Dial: address})
		config += fmt.Sprintf(`{"dial":%q},`, address)
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(config, ",")+"]}"), ours); err != nil {
		t.Fatal(err)
	}
	ours.Transport = answering{}
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
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

// TestAllocations bounds what the handler adds to Caddy's own proxy.
func TestAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("counts differ with coverage and the race detector")
	}
	allocs := make(map[string]float64)
	for name, h := range proxies(t) {
		allocs[name] = testing.AllocsPerRun(2000, func() { serve(t, h) })
	}
	t.Logf("allocations per request: %v", allocs)
	if more := allocs["ours"] - allocs["stock"]; more > 4 {
		t.Errorf("%v allocations more than Caddy's proxy, want at most 4", more)
	}
}

func BenchmarkServeHTTP(b *testing.B) {
	for name, h := range proxies(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve(b, h)
			}
		})
	}
}
