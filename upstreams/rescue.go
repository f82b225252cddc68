package upstreams

import (
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// errRescued is what attempts end with that are cut loose. It wraps nothing:
// Caddy's proxy would not retry a cancelled request.
var errRescued = rescueError{}

type rescueError struct{}

func (rescueError) Error() string { return "the upstream left rotation before it answered" }

// Timeout makes it 504 if there is no retry after all, as a net.Error, which
// has to have Temporary.
func (rescueError) Timeout() bool   { return true }
func (rescueError) Temporary() bool { return true }

// Left implements healthcheck.Owner: attempts that wait for an upstream that
// left rotation, because it does not answer or because of failed requests,
// are cut loose and go to another one. One that is shut is given the time to
// finish them, until it is silent, but for those that have no time to lose.
func (p *Pool) Left(t *healthcheck.Target, shut bool) {
	if !p.ready.Load() {
		return // nobody can be waiting yet
	}
	u := p.places.Load().byAddress[t.Address()]
	if u == nil || u.target != t {
		return
	}
	u.lost.Store(true)
	if t.InRotation() { // again already
		u.lost.Store(false)
		return
	}
	if !shut || u.silence.length(p.now()) >= silenceAfter {
		u.rescue()
		return
	}
	u.waiters.each(func(r *Request) {
		if !p.inTime(r, silenceAfter+silenceLook) {
			r.rescue(u)
		}
	})
}

// rescue cuts loose all that wait for u and have another one to go to.
func (u *upstream) rescue() { u.waiters.each(func(r *Request) { r.rescue(u) }) }

// Waits implements healthcheck.Owner.
func (p *Pool) Waits(t *healthcheck.Target) bool {
	if !p.ready.Load() {
		return false
	}
	u := p.places.Load().byAddress[t.Address()]
	return u != nil && u.target == t && u.silence.waiting.Load() > 0
}

// another reports whether a request that waits for an upstream out of rotation
// finds another one now, which it has not tried, and has time left for it.
func (p *Pool) another(r *Request) bool {
	return p.inTime(r, 0) && slices.ContainsFunc(p.current(r).eligible(), func(u *upstream) bool {
		return u != r.at && !r.hasTried(u) && u.target.InRotation() && !u.proxy.Full()
	})
}

// inTime reports whether the request will have time left for a retry after
// that time.
func (p *Pool) inTime(r *Request, after time.Duration) bool {
	most := time.Duration(p.cfg.Retry.TryDuration)
	return most == 0 || p.now()+after-r.began < most
}

// rescuable reports whether the attempt that is about to begin may be cut
// loose, once in a request: whether Caddy retries it then.
func (p *Pool) rescuable(r *Request, req *http.Request) bool {
	lb := p.cfg.Retry
	if r.rescued || lb == nil || !p.replayable(req) {
		return false
	}
	retries := r.attempts - 1 + r.idle
	switch {
	case lb.Retries > 0 && retries >= lb.Retries, lb.Retries == 0 && lb.TryDuration == 0:
		return false
	case !p.inTime(r, 0):
		return false
	case lb.RetryMatch == nil:
		return req.Method == http.MethodGet
	}
	if repl, ok := req.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		const placeholder = "http.reverse_proxy.is_transport_error"
		repl.Set(placeholder, true)
		defer repl.Delete(placeholder)
	}
	match, err := lb.RetryMatch.AnyMatchWithError(req)
	return match && err == nil
}

// replayable reports whether a request can be sent again: whether it has no
// body, or one that is buffered.
func (p *Pool) replayable(req *http.Request) bool {
	size, buffer := req.ContentLength, p.cfg.RequestBuffers
	return req.Body == nil || req.Body == http.NoBody || buffer < 0 || 0 <= size && size <= buffer
}

// Interface guards
var (
	_ net.Error         = errRescued
	_ healthcheck.Owner = (*Pool)(nil)
)
