package upstreams

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Select returns the upstream of the next attempt of a request, or nil if
// there is none. If nothing is in rotation it may wait, see await.
//
// The first attempt of a request is recognized by its URL having neither
// scheme nor host: Caddy's proxy empties both before the first attempt, and
// directs the URL to the selected upstream after that.
func (p *Pool) Select(_ reverseproxy.UpstreamPool, req *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if p.simple && req.URL.Host == "" && req.URL.Scheme == "" {
		if rot := p.rotation.Load(); len(rot.trials) == 0 {
			if u := p.next(rot, nil); u != nil {
				return u.proxy
			}
		}
	}
	r := p.request(req.Context())
	if r.attempts+r.idle > 0 {
		p.pause(r)
	}
	p.catchUp()
	u := p.choose(r, req, w)
	if r.idled = u == nil; r.idled {
		r.idle++
		return nil
	}
	return u.proxy
}

// choose returns the upstream of the next attempt of a request, or nil.
func (p *Pool) choose(r *Request, req *http.Request, w http.ResponseWriter) *upstream {
	if p.breaker != nil && !p.breaker.OK() {
		return nil
	}
	if p.cfg.Source != nil {
		p.ask(r, req)
	}
	rot := p.current(r)
	if len(rot.ups) > 0 || len(rot.trials) > 0 {
		if u := p.pick(rot, r, req, w); u != nil || len(rot.ups) > 0 {
			return u
		}
	}
	if rot = p.await(r); rot == nil {
		return nil
	}
	return p.pick(rot, r, req, w)
}

// current returns the rotation for a request.
func (p *Pool) current(r *Request) *rotation {
	if r.list != nil {
		return p.among(r.list)
	}
	return p.rotation.Load()
}

// pick returns an upstream of the rotation that this request has not tried,
// or one of the backups if it has tried all primaries. If it has tried them
// all, there is none in the pool's single round of retries, unless one of the
// others passes a check; else a new round begins, with another than the last
// one tried.
func (p *Pool) pick(rot *rotation, r *Request, req *http.Request, w http.ResponseWriter) *upstream {
	if len(r.tried()) == 0 {
		return p.from(rot, r, req, w)
	}
	switch {
	case !rot.exhausted(r):
	case rot.backup != nil && !rot.backup.exhausted(r):
		rot = rot.backup
	case p.cfg.SingleRound:
		if rot = p.awaitOther(r); rot == nil {
			return nil
		}
		if rot.exhausted(r) {
			rot = rot.backup
		}
	default:
		r.startRound()
		if rot.exhausted(r) {
			r.round = len(r.path)
		}
	}
	return p.from(rot, r, req, w)
}

// from returns an upstream of exactly that rotation.
func (p *Pool) from(rot *rotation, r *Request, req *http.Request, w http.ResponseWriter) *upstream {
	if p.cfg.Policy == nil || rot.whatever {
		for _, u := range rot.trials {
			if !u.proxy.Full() && !r.hasTried(u) && r.take(u) {
				return u
			}
		}
		return p.next(rot, r)
	}
	return p.byPolicy(rot, r, req, w)
}

// next returns the upstream whose turn it is, or nil if all are full or
// tried. Like Caddy's round_robin it begins with the second one. One on
// probation is passed over while a request waits for it, if there are others.
// r is nil if the request has tried none.
func (p *Pool) next(rot *rotation, r *Request) *upstream {
	n := uint64(len(rot.turns))
	for range n {
		u := rot.turns[p.cursor.Add(1)%n]
		if !u.proxy.Full() && !u.tested() && (r == nil || !r.hasTried(u)) {
			return u
		}
	}
	for _, u := range rot.turns { // others may have taken our turns meanwhile
		if !u.proxy.Full() && (r == nil || !r.hasTried(u)) {
			return u
		}
	}
	return nil
}

// byPolicy lets the policy choose. An upstream that waits for a trial request
// stands at its place among the others, so that a policy that goes by places,
// or ties requests to upstreams, sends none elsewhere.
func (p *Pool) byPolicy(rot *rotation, r *Request, req *http.Request, w http.ResponseWriter) *upstream {
	ups, pool := rot.ups, rot.pool
	if len(r.tried()) > 0 || len(rot.trials) > 0 {
		if len(rot.trials) > 0 {
			ups = rot.mixed
		}
		ups = slices.DeleteFunc(slices.Clone(ups), r.hasTried)
		pool = make(reverseproxy.UpstreamPool, len(ups))
		for i, u := range ups {
			pool[i] = u.proxy
		}
	}
	for {
		i := slices.Index(pool, p.cfg.Policy.Select(pool, req, w))
		if i < 0 {
			return nil
		}
		u := ups[i]
		if !slices.Contains(rot.trials, u) || r.take(u) {
			return u
		}
		ups, pool = slices.Delete(ups, i, i+1), slices.Delete(pool, i, i+1) // its trial goes on
	}
}
