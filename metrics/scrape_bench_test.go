package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// discarded is a response that nobody reads.
type discarded struct {
	io.Writer
	header http.Header
}

func (d discarded) Header() http.Header { return d.header }
func (discarded) WriteHeader(int)       {}

// BenchmarkScrape is what the metrics of many upstreams cost.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("upstreams=%d", n), func(b *testing.B) {
			pool := []string{"web"}
			for i := range n {
				pool = append(pool, fmt.Sprintf("10.0.%d.%d:80", i>>8, i&255))
			}
			c := newConfig(b, nil, pool)
			c.start()
			up := func() (count int) {
				c.pools[0].Each(func(u upstreams.Upstream) bool {
					if u.InRotation {
						count++
					}
					return true
				})
				return count
			}
			for up() < n {
				time.Sleep(10 * time.Millisecond)
			}
			handler := promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{})
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(discarded{io.Discard, make(http.Header)}, request)
			}
		})
	}
}
