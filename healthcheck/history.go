package healthcheck

import (
	"slices"
	"time"
)

// historyMost is how many results are remembered of each target.
const historyMost = 20

// recent is the latest results, in a ring.
type recent struct {
	list []Past
	next int
}

// Past is a result as it is remembered.
type Past struct {
	Report
	// Extra marks a check that was asked for outside the schedule, Counted
	// one that counted.
	Extra, Counted bool
}

// add remembers a result instead of the oldest one.
func (h *recent) add(p Past) {
	if len(h.list) < historyMost {
		h.list = append(h.list, p)
		return
	}
	h.list[h.next] = p
	h.next = (h.next + 1) % historyMost
}

func (h *recent) clone() recent { return recent{slices.Clone(h.list), h.next} }

// newestFirst returns the results, newest first.
func (h *recent) newestFirst() []Past {
	n := len(h.list)
	list := make([]Past, n)
	for i := range n {
		list[i] = h.list[(h.next+n-1-i)%n]
	}
	return list
}

// Explanation is why a target is what it is, and what comes next.
type Explanation struct {
	// History is the latest results, newest first.
	History []Past
	// Forecast is when it is checked next if it goes on failing, jitter and
	// the checks' own time left out.
	Forecast []time.Time
	// RetireAt is when it is retired then. Zero if it will not be within the
	// forecast.
	RetireAt time.Time
}

// Explain returns an explanation of t.
func (t *Target) Explain() Explanation {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	rec := t.rec.Load()
	e := Explanation{History: rec.history.newestFirst()}
	if t.probe != nil && !rec.next.IsZero() && rec.state.Status != Retired {
		var retired bool
		e.Forecast, retired = rec.state.Forecast(t.group.cfg.Settings, rec.next, historyMost, t.group.others(t))
		if retired {
			e.RetireAt = e.Forecast[len(e.Forecast)-1]
		}
	}
	return e
}
