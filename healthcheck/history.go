package healthcheck

import (
	"math"
	"slices"
	"time"
)

// historyMost is how many results are remembered of each target.
const historyMost = 20

// recent is the latest results, in a ring. There are as many of these as there
// are targets, so it is kept small.
type recent struct {
	list []result
	next int
}

// result is a Past without what most of them do not have.
type result struct {
	// at is in nanoseconds since 1970.
	at int64
	// why says what there is to say of one that failed, nil if nothing is.
	why *why
	// took is in microseconds; it saturates.
	took   uint32
	status int16
	flags  uint8
}

type why struct{ reason, detail string }

// The flags of a result, in the order in which pack sets them.
const (
	passed uint8 = 1 << iota
	gotAnswer
	noResult
	extraCheck
	counted
)

// Past is a result as it is remembered.
type Past struct {
	Report
	// Extra marks a check that was asked for outside the schedule, Counted
	// one that counted.
	Extra, Counted bool
}

// add remembers a result instead of the oldest one.
func (h *recent) add(p Past) {
	if n := len(h.list); n < historyMost {
		if n == cap(h.list) {
			h.list = append(make([]result, 0, min(max(2*n, 2), historyMost)), h.list...)
		}
		h.list = append(h.list, pack(p))
		return
	}
	h.list[h.next] = pack(p)
	h.next = (h.next + 1) % historyMost
}

func (h *recent) clone() recent { return recent{slices.Clone(h.list), h.next} }

// newestFirst returns the results, newest first.
func (h *recent) newestFirst() []Past {
	n := len(h.list)
	list := make([]Past, n)
	for i := range n {
		list[i] = h.list[(h.next+n-1-i)%n].unpack()
	}
	return list
}

func pack(p Past) result {
	r := result{
		at: p.Time.UnixNano(), took: uint32(min(max(p.Duration.Microseconds(), 0), math.MaxUint32)), status: int16(p.StatusCode),
	}
	if p.Reason != "" || p.Detail != "" {
		r.why = &why{p.Reason, p.Detail}
	}
	for flag, set := range [...]bool{p.OK, p.Answered, p.Void, p.Extra, p.Counted} {
		if set {
			r.flags |= 1 << flag
		}
	}
	return r
}

func (r result) unpack() Past {
	if r == (result{}) {
		return Past{}
	}
	p := Past{
		Report: Report{
			Time: time.Unix(0, r.at), Duration: time.Duration(r.took) * time.Microsecond, StatusCode: int(r.status),
			OK: r.flags&passed != 0, Answered: r.flags&gotAnswer != 0, Void: r.flags&noResult != 0,
		},
		Extra: r.flags&extraCheck != 0, Counted: r.flags&counted != 0,
	}
	if r.why != nil {
		p.Reason, p.Detail = r.why.reason, r.why.detail
	}
	return p
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
