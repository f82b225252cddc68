// Package stats boils measurements down to the figures that are reported.
package stats

import (
	"cmp"
	"slices"
	"time"
)

// Median returns the middle of the values, the mean of the two in the middle
// if their number is even, and 0 if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentile returns the smallest value that p percent of the values do not
// exceed, p from 0 to 100, and the zero value if there are none.
func Percentile[T cmp.Ordered](values []T, p float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(p / 100 * float64(len(sorted)))
	if float64(rank) == p/100*float64(len(sorted)) {
		rank--
	}
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Stint returns how long events go on: the last one before a gap of at least
// that length. Without events it is 0.
func Stint(events []time.Duration, gap time.Duration) time.Duration {
	last := time.Duration(0)
	for _, at := range slices.Sorted(slices.Values(events)) {
		if at-last >= gap {
			break
		}
		last = at
	}
	return last
}
