package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

// spread is the median of repetitions with the lowest and the highest. Without
// repetitions all are NaN; what never came is infinite.
type spread struct{ low, mid, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return spread{slices.Min(values), stats.Median(values), slices.Max(values)}
}

// none reports whether there was nothing to measure.
func (s spread) none() bool { return math.IsNaN(s.mid) }

// String is "median (lowest–highest)", or only the median if all are equal.
func (s spread) String() string {
	if s.none() {
		return "–"
	}
	middle, low, high := short(s.mid), short(s.low), short(s.high)
	if low == high {
		return middle
	}
	return fmt.Sprintf("%s (%s–%s)", middle, low, high)
}

// short is a number with three digits that count, or all before the point.
func short(v float64) string {
	switch {
	case math.IsInf(v, 0):
		return "never"
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case math.Abs(v) >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
