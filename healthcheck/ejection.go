package healthcheck

import "time"

// ejection is what the evidence of requests has made of a target, beside what
// checks have made of it. The zero value is a target that was never ejected.
//
//	in rotation <-------- passed check, or trial request, succeeds ---+
//	     |                                                            |
//	     | max_fails failures                                         |
//	     v                            the hold is over                |
//	  ejected: held ----------------------------------------> ejected: proving
//	                ^                                                 |
//	                +--------------- longer, if it fails -------------+
type ejection struct {
	// out says that the target is ejected, held that it must not prove
	// itself yet.
	out, held bool
	// row is how many ejections in a row there were.
	row int
	// serial numbers the ejections, so that what began before one is not
	// taken for evidence after it.
	serial uint64
	// reason is what failed.
	reason string
	// until is when the hold ends, or ended; back when the target was put
	// back last.
	until, back time.Time
}

// eject ejects the target, for as long as the ladder says of the ejections
// in a row:
//
//	min(Interval + row*Increment, MaxInterval)
//
// Ejections are in a row if the target was back for no longer than its last
// hold, or window if that is longer.
func (e *ejection) eject(set Settings, reason string, window time.Duration, now time.Time) {
	if !e.out && now.Sub(e.back) > max(set.Ladder(e.row), window) {
		e.row = 0
	}
	e.row = increment(e.row)
	e.serial++
	e.out, e.held = true, true
	e.until = now.Add(set.Ladder(e.row))
	e.reason = reason
}

// prove ends the hold, if it is over.
func (e *ejection) prove(now time.Time) bool {
	if !e.held || now.Before(e.until) {
		return false
	}
	e.held = false
	return true
}

// proving reports whether the next result decides.
func (e *ejection) proving(now time.Time) bool { return e.out && !now.Before(e.until) }

// restore puts the target back.
func (e *ejection) restore(now time.Time) {
	e.out, e.held = false, false
	e.reason, e.until, e.back = "", time.Time{}, now
}
