package admin

import (
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// Explanation is why an upstream is what it is, and what comes next.
type Explanation struct {
	// History is the last 20 results, newest first.
	History []Past `json:"history"`
	// Forecast is what comes if the upstream goes on failing.
	Forecast Forecast `json:"forecast"`
}

// Past is a check as it is remembered.
type Past struct {
	Check
	// Extra says that it was asked for outside the schedule, Counted that it
	// counted: extra checks of an upstream that is down count only if they
	// pass.
	Extra   bool `json:"extra"`
	Counted bool `json:"counted"`
}

// Forecast is when an upstream is checked if every check fails, jitter and the
// checks' own time left out.
type Forecast struct {
	// Checks are the coming checks, at most 20.
	Checks []*time.Time `json:"checks"`
	// RetireAt is when it is retired. Null if it will not be.
	RetireAt *time.Time `json:"retire_at"`
}

func newExplanation(u upstreams.Upstream) *Explanation {
	known := u.Target.Explain()
	e := &Explanation{
		History:  make([]Past, 0, len(known.History)),
		Forecast: Forecast{Checks: make([]*time.Time, 0, len(known.Forecast)), RetireAt: moment(known.RetireAt)},
	}
	for _, past := range known.History {
		e.History = append(e.History, Past{newCheck(past.Report), past.Extra, past.Counted})
	}
	for _, at := range known.Forecast {
		e.Forecast.Checks = append(e.Forecast.Checks, moment(at))
	}
	return e
}
