//go:build unix

package loadbalance

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// BenchmarkServeHTTP compares what a request costs in Caddy's own proxy and in
// ours: the processor time of short runs of both in turn, so that whatever
// else the machine does slows down both, and the medians of these.
func BenchmarkServeHTTP(b *testing.B) {
	for name, healthChecks := range healthChecks {
		b.Run(name, func(b *testing.B) {
			handlers := proxies(b, logging(b, fileLog(b, "INFO")), healthChecks)
			var stock, ours, more costs
			for b.Loop() {
				// Each is as often the first of two as the other one.
				a := [...]time.Duration{cost(b, handlers["stock"]), cost(b, handlers["ours"])}
				z := [...]time.Duration{cost(b, handlers["ours"]), cost(b, handlers["stock"])}
				stock, ours = append(stock, a[0], z[1]), append(ours, a[1], z[0])
				more = append(more, a[1]-a[0], z[0]-z[1])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(stock.median(), "stock-ns")
			b.ReportMetric(ours.median(), "ours-ns")
			b.ReportMetric(more.median(), "more-ns")
			b.ReportMetric(100*more.median()/stock.median(), "more-%")
		})
	}
}

type costs []time.Duration

func (c costs) median() float64 {
	slices.Sort(c)
	return float64(c[len(c)/2])
}

// cost returns the processor time of one request through h.
func cost(b *testing.B, h caddyhttp.MiddlewareHandler) time.Duration {
	const requests = 10
	begin := processorTime(b)
	for range requests {
		serve(b, h)
	}
	return (processorTime(b) - begin) / requests
}

// processorTime returns the processor time of the process so far.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
