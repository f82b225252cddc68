// Package healthcheck knows which backends are fit to serve.
//
// Every address of a pool is a target. A target is checked on a schedule that
// backs off while it fails and gives up after a maximum of failures:
//
//	           pass                 health_fails failures
//	unknown ---------> up ------------------------------> down --+ failed: check
//	   |                ^                                 |  ^ ^--+ later and later
//	   | fail           +------ health_passes passes -----+  |
//	   +-------------------------------------------------> |  | readmit, or after
//	                                                      v  | health_readmit_after
//	                           health_max_failures      retired
//
// The decisions (state.go, delay.go) are pure: no clock, no I/O, no locks.
// Time, locks and sockets are elsewhere: a Registry owns the timers and keeps
// what is known about each target over reloads, a Generation is one running
// config, a Group one pool of it, a Probe one way to ask a backend.
package healthcheck

import "strconv"

// Status is what is known about a target.
type Status uint8

const (
	// Unknown means that no check has had a result yet. Gets no traffic.
	Unknown Status = iota
	// Up means fit to serve. The only status that gets traffic.
	Up
	// Down means failing. Gets no traffic and is checked less and less often.
	Down
	// Retired means given up after the maximum of failures. Gets no traffic
	// and no checks until it is readmitted.
	Retired
)

// String returns the name of s as logs and the admin API spell it.
func (s Status) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Up:
		return "up"
	case Down:
		return "down"
	case Retired:
		return "retired"
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// State is what the results of the past have made of a target. The zero value
// is a target that has never been checked.
type State struct {
	// Status is the current status.
	Status Status
	// Failures is the run of failed checks that no passed one interrupted.
	Failures int
	// Passes is the run of passed checks that no failed one interrupted.
	Passes int
	// Step is the place on the ladder while down: the number of failures in
	// a row, counted from the one that took the target down.
	Step int
	// Announced says that a retirement has been reported since the target was
	// last up, so that the next one is quiet.
	Announced bool
	// Passed says that the target has ever passed a check.
	Passed bool
}

// Result is the part of a check's result that the state depends on.
type Result struct {
	// Pass says whether the check passed.
	Pass bool
	// Extra marks a check that was asked for outside the schedule. While the
	// target is down or retired, a failed one is only shown.
	Extra bool
	// Others says that another target of the same tier is in rotation, so
	// that this one may be retired.
	Others bool
}

// Effect is what a result did.
type Effect struct {
	// From and To are the statuses before and after.
	From, To Status
	// Counted is false if the result is only to be shown: then the state and
	// the schedule are as before.
	Counted bool
	// FirstPass marks the first pass in the target's life, after which the
	// delay is drawn evenly from 0 to the interval.
	FirstPass bool
	// Loud marks the first retirement since the target was last up.
	Loud bool
}

// Apply counts a result.
func (s *State) Apply(set Settings, r Result) Effect {
	e := Effect{From: s.Status, To: s.Status}
	if r.Extra && !r.Pass && (s.Status == Down || s.Status == Retired) {
		return e
	}
	e.Counted = true
	if r.Pass {
		e.FirstPass = !s.Passed
		s.pass(set)
	} else {
		e.Loud = s.fail(set, r.Others)
	}
	e.To = s.Status
	return e
}

// pass counts a passed check.
func (s *State) pass(set Settings) {
	first := s.Status == Unknown
	s.Passed = true
	s.Failures = 0
	s.Step = 0
	s.Passes = increment(s.Passes)
	switch {
	case s.Status == Up:
	case first || s.Passes >= set.Passes:
		s.Status = Up
		s.Announced = false
	default:
		s.Status = Down
	}
}

// fail counts a failed check and reports whether it led to a loud retirement.
func (s *State) fail(set Settings, others bool) bool {
	s.Passes = 0
	s.Failures = increment(s.Failures)
	switch s.Status {
	case Unknown:
		s.Status = Down
		s.Step = 1
	case Up:
		if s.Failures < set.Fails {
			return false
		}
		s.Status = Down
		s.Step = 1
	case Down:
		s.Step = increment(s.Step)
	case Retired: // only extra checks run then, and they do not count
		return false
	}
	if !s.exhausted(set) || !others {
		return false
	}
	s.Status = Retired
	loud := !s.Announced
	s.Announced = true
	return loud
}

// exhausted reports whether the run of failures has reached the maximum.
func (s *State) exhausted(set Settings) bool {
	limit := set.limit()
	return limit > 0 && s.Failures >= limit
}

// Readmit ends a retirement on an operator's word: the ladder starts anew.
func (s *State) Readmit() {
	if s.Status != Retired {
		return
	}
	s.Status = Down
	s.Failures, s.Passes, s.Step = 0, 0, 0
}

// Return ends a retirement because its time is over: one more failure
// retires the target again.
func (s *State) Return(set Settings) {
	if s.Status != Retired {
		return
	}
	s.Status = Down
	s.Failures = max(set.limit()-1, 0)
	s.Passes = 0
}

// Recall ends a retirement because the pool has nothing else left. The run of
// failures stays as it is.
func (s *State) Recall() {
	if s.Status == Retired {
		s.Status = Down
	}
}

// increment adds one and saturates.
func increment(n int) int {
	if n+1 < n {
		return n
	}
	return n + 1
}
