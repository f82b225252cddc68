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
		if u := p.next(p.rotation.Load()); u != nil {
			return u.proxy
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

// next returns the upstream whose turn it is, or nil if all are full.
func (p *Pool) next(rot *rotation) *upstream {
	n := uint64(len(rot.turns))
	for range n {
		u := rot.turns[(p.cursor.Add(1)-1)%n]
		if !u.proxy.Full() {
			return u
		}
	}
	if n > 1 { // others may have taken our turns meanwhile
		for _, u := range rot.turns {
			if !u.proxy.Full() {
				return u
			}
		}
	}
	return nil
}

// pick returns an upstream of the rotation that this request has not tried.
// If it has tried them all, there is none in the pool's single round of
// retries; else a new round begins, which avoids the last one tried.
func (p *Pool) pick(rot *rotation, a *attempts, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if len(a.tried) == 0 {
		return p.pickFrom(rot, r, w)
	}
	untried := rot.without(a.tried)
	if len(untried.pool) == 0 {
		if p.cfg.SingleRound {
			return nil
		}
		a.tried = append(a.tried[:0], a.tried[len(a.tried)-1])
		if untried = rot.without(a.tried); len(untried.pool) == 0 {
			untried = rot
		}
	}
	return p.pickFrom(untried, r, w)
}

func (p *Pool) pickFrom(rot *rotation, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if p.cfg.Policy != nil {
		return p.cfg.Policy.Select(rot.pool, r, w)
	}
	if u := p.next(rot); u != nil {
		return u.proxy
	}
	return nil
}

// without returns the rotation without the given upstreams.
func (rot *rotation) without(tried []*upstream) *rotation {
	left := &rotation{turns: slices.DeleteFunc(slices.Clone(rot.turns), func(u *upstream) bool {
		return slices.Contains(tried, u)
	})}
	left.pool = slices.DeleteFunc(slices.Clone(rot.pool), func(up *reverseproxy.Upstream) bool {
		return slices.ContainsFunc(tried, func(u *upstream) bool { return u.proxy == up })
	})
	return left
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
			a.triedDynamic = a.triedDynamic[:0]
		}
	}
	return p.dynamicPolicy.Select(pool, r, w)
}
