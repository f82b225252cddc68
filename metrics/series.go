package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// series is a series with a value. Prometheus has metrics of its own for that,
// but they make all labels anew, of which there are hundreds of thousands with
// thousands of upstreams. These share theirs.
type series struct {
	of     *family
	labels []*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (s *series) Desc() *prometheus.Desc { return s.of.desc }

// Write implements prometheus.Metric.
func (s *series) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.of.counts {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// histogram is the series of check durations.
type histogram struct {
	of     *family
	labels []*dto.LabelPair
	tally  *healthcheck.Tally
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.of.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	var (
		count, took = h.tally.Checks(), h.tally.Took.Seconds()
		buckets     = make([]dto.Bucket, len(bounds))
		sums        = make([]uint64, len(bounds))
		list        = make([]*dto.Bucket, len(bounds))
		sum         uint64
	)
	for i := range bounds {
		sum += h.tally.Durations[i]
		sums[i] = sum
		buckets[i].UpperBound, buckets[i].CumulativeCount = &bounds[i], &sums[i]
		list[i] = &buckets[i]
	}
	out.Label = h.labels
	out.Histogram = &dto.Histogram{SampleCount: &count, SampleSum: &took, Bucket: list}
	return nil
}

// bounds are the upper bounds of the histogram, in seconds.
var bounds = func() (list []float64) {
	for _, bound := range healthcheck.DurationBounds {
		list = append(list, bound.Seconds())
	}
	return list
}()

// label returns a label that any number of series may share.
func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// Interface guards
var (
	_ prometheus.Metric = (*series)(nil)
	_ prometheus.Metric = (*histogram)(nil)
)
