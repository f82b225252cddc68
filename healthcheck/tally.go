package healthcheck

import (
	"slices"
	"time"
)

// DurationBounds are the upper bounds by which Tally counts the durations of
// checks.
var DurationBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Tally counts what has happened to a target. It only grows, and goes with
// pool and address over reloads, whatever else they change.
type Tally struct {
	// Passed and Failed count the checks with that result, Void those that
	// had none, or whose result was passed over because requests are answered.
	Passed, Failed, Void uint64
	// Durations counts all checks by the first of DurationBounds that they did
	// not exceed; the last place is for those that took longer than all of
	// them. Took is their duration together.
	Durations [len(DurationBounds) + 1]uint64
	Took      time.Duration
	// Transitions counts changes of status, and ejections and their ends: those
	// that have happened, in order of their first time. Most targets have seen
	// one or two kinds.
	Transitions []Transitions
}

// Transitions counts how often a way was gone.
type Transitions struct {
	Transition
	Count uint64
}

// Transition is the way from one status to another, or to "ejected" and back,
// as logs and events name them.
type Transition struct{ From, To string }

// Checks returns how many checks there were.
func (t *Tally) Checks() uint64 { return t.Passed + t.Failed + t.Void }

// checked counts a check; void says that its result does not count.
func (t *Tally) checked(report Report, void bool) {
	switch {
	case void:
		t.Void++
	case report.OK:
		t.Passed++
	default:
		t.Failed++
	}
	i := 0
	for i < len(DurationBounds) && report.Duration > DurationBounds[i] {
		i++
	}
	t.Durations[i]++
	t.Took += report.Duration
}

// moved counts a transition.
func (t *Tally) moved(from, to string) {
	if from == to {
		return
	}
	way := Transition{from, to}
	for i := range t.Transitions {
		if t.Transitions[i].Transition == way {
			t.Transitions[i].Count++
			return
		}
	}
	t.Transitions = append(t.Transitions, Transitions{way, 1})
}

// Moved returns how often a way was gone.
func (t *Tally) Moved(way Transition) uint64 {
	for _, gone := range t.Transitions {
		if gone.Transition == way {
			return gone.Count
		}
	}
	return 0
}

// Tally returns what has happened to t.
func (t *Target) Tally() Tally {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	tally := *t.rec.Load().tally
	tally.Transitions = slices.Clone(tally.Transitions)
	return tally
}
