package upstreams

import (
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// latencyLook is the least time between two looks at waiting attempts.
const latencyLook = 100 * time.Millisecond

// lookAfter returns how long until the next look at waiting attempts, so that
// those that take too long are found soon after.
func (p *Pool) lookAfter() time.Duration {
	if p.latency <= 0 {
		return silenceLook
	}
	return min(silenceLook, max(p.latency/2, latencyLook))
}

// lookAtWaiters counts the attempts that have waited for u for too long, and
// not only when their answers come: who may go elsewhere need not wait for
// them. Others are judged by their answers.
func (p *Pool) lookAtWaiters(u *upstream, now time.Duration) {
	if p.latency > 0 {
		heir, same := p.heir(u)
		u.waiters.each(func(r *Request) { r.judge(u, now, heir, same) })
	}
}

// judge counts the attempt as failed, once, if it has waited for u for too
// long, and ejects u if it was one too many: from heir, which knows u as same.
// Any goroutine may call it.
func (r *Request) judge(u *upstream, now time.Duration, heir *Pool, same *upstream) {
	if !r.hold() {
		return
	}
	p := r.pool
	tooMany, among := false, []*healthcheck.Target(nil)
	if r.at == u && !r.late && now-r.start >= p.latency {
		r.late = true
		at := p.began.Add(now)
		u.target.Failed(at)
		if tooMany = heir.tooMany(r, same, at); tooMany {
			among = r.choice(same)
		}
	}
	r.phase.Store(waiting) // so that the ejection cuts it loose
	if tooMany {
		heir.eject(same, tooSlow, among)
	}
}
