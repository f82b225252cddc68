package upstreams

import "time"

// catchUpGap is the least time between two looks of a closed pool.
const catchUpGap = 50 * time.Millisecond

// catchUp brings the rotation of a closed pool up to date. Requests that a
// reload left behind may go on in it for as long as lb_try_duration, and
// nobody tells it of transitions any more.
func (p *Pool) catchUp() {
	if !p.closed.Load() {
		return
	}
	now, last := p.now(), time.Duration(p.caughtUp.Load())
	if last > 0 && now-last < catchUpGap || !p.caughtUp.CompareAndSwap(int64(last), int64(now)) {
		return
	}
	p.group.CatchUp()
	p.Changed()
}
