package upstreams

import "time"

// promptRetries is how many attempts of a request may follow their failed
// predecessors at once.
const promptRetries = 5

// pause lets lb_try_interval pass between two attempts of a request, unless an
// upstream is in rotation that the request has not tried, or as soon as there
// is one: nobody gains by waiting then. Only the first retries are as prompt,
// or a request that fails everywhere would run through a large pool at once.
// One that has found all of them full waits in any case.
//
// That the client has gone is for the next attempt to find. A reload does not
// end the pause: the request goes on with its old config.
func (p *Pool) pause(r *Request) {
	if p.cfg.TryInterval <= 0 || !r.idled && p.prompt(r) {
		return
	}
	timer := time.NewTimer(p.cfg.TryInterval)
	defer timer.Stop()
	for {
		changed := p.changed.listen()
		select {
		case <-timer.C:
			return
		case <-changed:
			if p.prompt(r) {
				return
			}
		}
	}
}

// prompt reports whether the next attempt of a request is one that need not
// wait.
func (p *Pool) prompt(r *Request) bool {
	return r.attempts <= promptRetries && r.hasOther(p.current(r))
}
