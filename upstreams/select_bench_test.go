package upstreams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// only answers requests to upstreams for which up is true.
type only func(dial string) bool

func (up only) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := reverseproxy.GetDialInfo(req.Context())
	if !up(info.Address) {
		return nil, errors.New("down")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func dial(i int) string { return fmt.Sprintf("10.0.0.1:%d", i+1) }

// stockPool returns the upstreams of a handler of Caddy's own whose health
// checks have found those up for which up is true.
func stockPool(b *testing.B, n int, up func(i int) bool) reverseproxy.UpstreamPool {
	b.Helper()
	fit := make(map[string]bool)
	h := &reverseproxy.Handler{
		Transport: only(func(dial string) bool { return fit[dial] }),
		HealthChecks: &reverseproxy.HealthChecks{Active: &reverseproxy.ActiveHealthChecks{
			URI: "/", Interval: caddy.Duration(time.Hour),
		}},
	}
	for i := range n {
		fit[dial(i)] = up(i)
		h.Upstreams = append(h.Upstreams, &reverseproxy.Upstream{Dial: dial(i)})
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Provision(ctx); err != nil {
		b.Fatal(err)
	}
	for i, u := range h.Upstreams {
		for u.Available() != up(i) {
			time.Sleep(time.Millisecond)
		}
	}
	return h.Upstreams
}

// ourPool returns a pool of n upstreams with those in rotation for which up is
// true.
func ourPool(b *testing.B, n int, up func(i int) bool) *Pool {
	b.Helper()
	cfg := PoolConfig{
		Check:   healthcheck.Config{Protocol: healthcheck.ProtocolNone},
		Context: context.Background(), Logger: zap.NewNop(),
	}
	for i := range n {
		cfg.Upstreams = append(cfg.Upstreams, Config{Dial: dial(i)})
	}
	p, _, err := NewPool(cfg, b)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	var in []place
	for i, at := range p.places.Load().list {
		if up(i) {
			in = append(in, at)
		}
	}
	p.rotation.Store(arrange(in))
	return p
}

// BenchmarkSelect compares a pick with one of Caddy's round_robin, with all
// upstreams up and with all but one down.
func BenchmarkSelect(b *testing.B) {
	r := &http.Request{URL: new(url.URL)} // as before the first attempt
	for _, n := range []int{3, 10, 100, 1000, 10_000} {
		for name, up := range map[string]func(int) bool{
			"all_up": func(int) bool { return true },
			"one_up": func(i int) bool { return i == n/2 },
		} {
			for _, who := range []struct {
				name     string
				selector reverseproxy.Selector
				pool     reverseproxy.UpstreamPool
			}{
				{"stock", new(reverseproxy.RoundRobinSelection), stockPool(b, n, up)},
				{"ours", ourPool(b, n, up), nil}, // has its own
			} {
				b.Run(fmt.Sprintf("upstreams=%d/%s/%s", n, name, who.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if who.selector.Select(who.pool, r, nil) == nil {
							b.Fatal("no upstream")
						}
					}
				})
			}
		}
	}
}

// BenchmarkSwap is what it costs to put a new rotation in the place of the
// old one when half of the upstreams have left, or have come back.
func BenchmarkSwap(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("upstreams=%d", n), func(b *testing.B) {
			p := ourPool(b, n, func(int) bool { return true })
			all := p.places.Load()
			half := *all
			half.list = slices.Clone(all.list)
			for i := range n / 2 {
				half.list[2*i].weight = 0
			}
			b.ReportAllocs()
			for b.Loop() {
				p.places.Store(&half)
				p.Changed()
				p.places.Store(all)
				p.Changed()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/op")
		})
	}
}
