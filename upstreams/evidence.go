package upstreams

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// tooSlow is what is wrong with attempts that take too long.
const tooSlow = "latency"

// judged returns what is wrong with a response, "" if nothing is.
func (p *Pool) judged(resp *http.Response, took time.Duration) string {
	for _, bad := range p.cfg.Passive.UnhealthyStatus {
		if caddyhttp.StatusCodeMatches(resp.StatusCode, bad) {
			return fmt.Sprintf("status %d", resp.StatusCode)
		}
	}
	if p.latency > 0 && took >= p.latency {
		return tooSlow
	}
	return ""
}

// failed counts the latest attempt of r, at u, as failed, and ejects u if it
// was one too many.
func (p *Pool) failed(r *Request, u *upstream, reason string, now time.Time) {
	p, u = p.heir(u)
	if p.tooMany(r, u, now) {
		p.eject(u, reason, r.choice(u))
	}
}

// heir returns the pool that judges u now, and u as it knows it. Those of a
// closed pool are the newer config's, if that has them and the same idea of
// what is a failure; it would have to wait for evidence of its own otherwise.
func (p *Pool) heir(u *upstream) (*Pool, *upstream) {
	if !p.closed.Load() || p.cfg.SourceDepends {
		return p, u
	}
	name, passive := p.Name(), p.cfg.Passive
	for _, newer := range Pools() {
		if newer.Name() == name && !newer.cfg.SourceDepends &&
			newer.cfg.Passive.UnhealthyLatency == passive.UnhealthyLatency &&
			slices.Equal(newer.cfg.Passive.UnhealthyStatus, passive.UnhealthyStatus) {
			if same := newer.places.Load().byAddress[u.address]; same != nil {
				return newer, same
			}
		}
	}
	return p, u
}

// tooMany counts the latest attempt of r, at u, as failed, and reports whether
// u is to be ejected. What began before the last ejection is no news.
func (p *Pool) tooMany(r *Request, u *upstream, now time.Time) bool {
	return p.ejects && u.target.Ejections() == r.ejections &&
		u.account.failures.add(now, time.Duration(p.cfg.Passive.FailDuration)) >= p.cfg.Passive.MaxFails
}

// eject ejects u, if there is another one among those.
func (p *Pool) eject(u *upstream, reason string, among []*healthcheck.Target) {
	if u.target.Eject(reason, time.Duration(p.cfg.Passive.FailDuration), among...) {
		u.account.failures.forget()
		u.probation.Store(true)
	}
}

// tested reports whether u is on probation, after an ejection, and a request
// waits for it already: a check that passes says little about the requests
// that failed. Probation ends with the first whole answer.
func (u *upstream) tested() bool { return u.probation.Load() && u.silence.waiting.Load() > 0 }

// proven ends the probation of u, by an answer to the latest attempt of r,
// unless that began before the last ejection.
func (u *upstream) proven(r *Request) {
	if u.probation.Load() && u.target.Ejections() == r.ejections {
		u.probation.Store(false)
	}
}

// decide decides on the upstream of which the request is the trial.
func (r *Request) decide(u *upstream, ok bool, reason string) {
	if r.onTrial != u {
		return
	}
	r.onTrial = nil
	u.target.Tried(r.trial, ok, reason, time.Duration(r.pool.cfg.Passive.FailDuration))
}

// take makes the request the trial of u, if u waits for one.
func (r *Request) take(u *upstream) bool {
	serial := u.target.Trial()
	before := u.taken.Load()
	if serial == 0 || before == serial || !u.taken.CompareAndSwap(before, serial) {
		return false
	}
	r.freeTrial()
	r.onTrial, r.trial = u, serial
	return true
}

// freeTrial leaves the trial to another request.
func (r *Request) freeTrial() {
	if r.onTrial != nil {
		r.onTrial.taken.CompareAndSwap(r.trial, 0)
		r.onTrial = nil
	}
}

// answer is a response body that notes when the upstream breaks off.
type answer struct {
	io.ReadCloser
	request  *Request
	upstream *upstream
	// good says that nothing was wrong with status and latency.
	good bool
}

func (b *answer) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.upstream != nil && b.good {
		b.upstream.proven(b.request)
		b.upstream = nil
	}
	if err != nil && err != io.EOF && b.upstream != nil && b.request.Context.Err() == nil {
		now := time.Now()
		b.upstream.target.Failed(now)
		if b.good { // else it has been counted
			b.request.pool.failed(b.request, b.upstream, "response broken off", now)
		}
		b.upstream = nil // once is enough
	}
	return n, err
}

// isIdleClose reports whether err comes from a connection that the upstream
// closed between two requests: no fault of it.
func isIdleClose(err error) bool {
	return strings.Contains(err.Error(), "server closed idle connection")
}
