package healthcheck

import (
	"math"
	"time"
)

// Settings are the thresholds and delays of a pool's checks. They may change
// with every config and apply from the next result on.
type Settings struct {
	// Interval is the delay between the checks of a target that is up.
	Interval time.Duration
	// Increment is added to the delay with every failed check in a row.
	Increment time.Duration
	// MaxInterval is the longest delay of a target that is down.
	MaxInterval time.Duration
	// Passes is how many passed checks in a row bring a target up.
	Passes int
	// Fails is how many failed checks in a row take a target down.
	Fails int
	// MaxFailures is how many failed checks in a row retire a target.
	// 0 means never.
	MaxFailures int
	// ReadmitAfter is how long a retirement lasts. 0 means until an operator
	// ends it.
	ReadmitAfter time.Duration
	// Jitter is the fraction by which every delay is spread both ways,
	// from 0 to 1.
	Jitter float64
}

// limit returns the run of failures that retires a target, 0 for never. A
// target is not retired before it is down.
func (set Settings) limit() int {
	if set.MaxFailures <= 0 {
		return 0
	}
	return max(set.MaxFailures, set.Fails)
}

// Ladder returns the delay after the k-th failed check in a row, counted from
// the one that took the target down (k = 1):
//
//	min(Interval + k*Increment, MaxInterval)
//
// It saturates instead of overflowing.
func (set Settings) Ladder(k int) time.Duration {
	room := set.MaxInterval - set.Interval
	if room <= 0 || set.Increment <= 0 || k <= 0 {
		return min(set.Interval, set.MaxInterval)
	}
	if time.Duration(k) > room/set.Increment {
		return set.MaxInterval
	}
	return set.Interval + time.Duration(k)*set.Increment
}

// Delay returns the time from the end of the last check to the next one, or
// to the end of the retirement of a retired target. It is false if there is
// none because the retirement does not end by itself.
func (s *State) Delay(set Settings) (time.Duration, bool) {
	switch s.Status {
	case Unknown:
		return 0, true
	case Retired:
		return set.ReadmitAfter, set.ReadmitAfter > 0
	case Down:
		switch {
		case s.Passes > 0:
			return set.Interval, true
		case s.exhausted(set):
			return set.MaxInterval, true
		default:
			return set.Ladder(s.Step), true
		}
	}
	return set.Interval, true
}

// RetireIn returns how long after the next check a target that is down and
// goes on failing is retired. It is false if that never happens.
func (s *State) RetireIn(set Settings) (time.Duration, bool) {
	limit := set.limit()
	if s.Status != Down || limit == 0 {
		return 0, false
	}
	left := max(limit-s.Failures-1, 0) // delays until then
	climb := min(left, max(set.rungs()-s.Step, 0))
	if climb == 0 {
		return times(set.MaxInterval, left), true
	}
	first, last := set.Ladder(s.Step+1), set.Ladder(s.Step+climb)
	mean := first + (last-first)/2
	return add(times(mean, climb), times(set.MaxInterval, left-climb)), true
}

// Forecast returns when a target is checked, given the time of its next
// check, if every check fails from now on and takes no time: at most so many
// times, and until it is retired, which it may be if others says so.
func (s State) Forecast(set Settings, next time.Time, most int, others bool) (checks []time.Time, retired bool) {
	for len(checks) < most && s.Status != Retired {
		checks = append(checks, next)
		s.Apply(set, Result{Others: others})
		delay, _ := s.Delay(set)
		next = next.Add(delay)
	}
	return checks, s.Status == Retired
}

// rungs returns how many delays of the ladder there are before MaxInterval
// cuts it off.
func (set Settings) rungs() int {
	room := set.MaxInterval - set.Interval
	switch {
	case room <= 0:
		return 0
	case set.Increment <= 0:
		return math.MaxInt
	}
	return int(room / set.Increment)
}

// spread moves d by up to jitter both ways; r is a random number in [0, 1).
func spread(d time.Duration, jitter, r float64) time.Duration {
	if jitter <= 0 {
		return d
	}
	f := float64(d) * (1 + jitter*(2*r-1))
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// add returns a + b, both not negative, and saturates.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times returns n * d, both not negative, and saturates.
func times(d time.Duration, n int) time.Duration {
	if n <= 0 || d <= 0 {
		return 0
	}
	if d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}
