package upstreams

import "time"

// promptRetries is how many attempts of a request may follow their failed
// predecessors at once.
const promptRetries = 5

// pause lets lb_try_interval pass between two attempts of a request, unless an
// upstream is in rotation that the request has not tried: nobody gains by
// waiting then. Only the first retries are as prompt, or a request that fails
// everywhere would run through a large pool at once. One that has found all of
// them full waits in any case.
//
// Nothing else ends the pause. Those who wait while all are down would else
// fall upon the first that is back, all at the same moment. That the client has
// gone is for the next attempt to find, and a reload does not matter: the
// request goes on with its old config.
func (p *Pool) pause(r *Request) {
	if !r.idled && r.attempts <= promptRetries && r.hasOther(p.current(r)) {
		return
	}
	time.Sleep(p.cfg.TryInterval)
}
