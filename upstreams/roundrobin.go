package upstreams

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Select returns the upstream of the next attempt of a request, or nil if
// there is none. If nothing is in rotation it may wait, see await.
//
// The first attempt of a request is recognized by its URL having no host yet:
// Caddy's proxy empties it before the first attempt and directs it to the
// selected upstream after that.
func (p *Pool) Select(dynamic reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if r.URL.Host == "" && p.simple && len(dynamic) == 0 {
		if up := p.next(p.rotation.Load()); up != nil {
			return up
		}
	}
	a := p.attempts(r.Context())
	if len(dynamic) > 0 {
		return p.selectDynamic(dynamic, a, r, w)
	}
	if p.breaker != nil && !p.breaker.OK() {
		return nil
	}
	rot := p.rotation.Load()
	if len(rot.pool) == 0 {
		if rot = p.await(r.Context(), a); rot == nil {
			return nil
		}
	}
	return p.pick(rot, a, r, w)
}

// next returns the upstream whose turn it is, or nil if all are full. Like
// Caddy's round_robin it begins with the second one.
func (p *Pool) next(rot *rotation) *reverseproxy.Upstream {
	n := uint64(len(rot.turns))
	for range n {
		up := rot.turns[p.cursor.Add(1)%n]
		if !up.Full() {
			return up
		}
	}
	for _, up := range rot.turns { // others may have taken our turns meanwhile
		if !up.Full() {
			return up
		}
	}
	return nil
}

// pick returns an upstream of the rotation that this request has not tried.
// If it has tried them all, there is none in the pool's single round of
// retries; else a new round begins, with another than the last one tried.
func (p *Pool) pick(rot *rotation, a *attempts, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if len(a.tried) == 0 {
		return p.pickFrom(rot, r, w)
	}
	untried := rot.without(a.tried)
	if len(untried.pool) == 0 {
		if p.cfg.SingleRound {
			return nil
		}
		last := a.tried[len(a.tried)-1:]
		a.tried = nil
		if untried = rot.without(last); len(untried.pool) == 0 {
			untried = rot
		}
	}
	return p.pickFrom(untried, r, w)
}

func (p *Pool) pickFrom(rot *rotation, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if p.cfg.Policy != nil {
		return p.cfg.Policy.Select(rot.pool, r, w)
	}
	return p.next(rot)
}

// without returns the rotation without the given upstreams.
func (rot *rotation) without(tried []*reverseproxy.Upstream) *rotation {
	in := func(up *reverseproxy.Upstream) bool { return slices.Contains(tried, up) }
	return &rotation{
		turns: slices.DeleteFunc(slices.Clone(rot.turns), in),
		pool:  slices.DeleteFunc(slices.Clone(rot.pool), in),
	}
}

// selectDynamic chooses among upstreams that a dynamic source returned for
// this request. They are not checked.
func (p *Pool) selectDynamic(pool reverseproxy.UpstreamPool, a *attempts, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if len(a.triedDynamic) > 0 {
		untried := slices.DeleteFunc(slices.Clone(pool), func(up *reverseproxy.Upstream) bool {
			return slices.Contains(a.triedDynamic, up.Dial)
		})
		switch {
		case len(untried) > 0:
			pool = untried
		case p.cfg.SingleRound:
			return nil
		default:
			a.triedDynamic = nil
		}
	}
	return p.dynamicPolicy.Select(pool, r, w)
}
