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
func (p *Pool) Select(dynamic reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	if p.simple && r.URL.Host == "" && r.URL.Scheme == "" && len(dynamic) == 0 {
		if up := p.next(p.rotation.Load(), nil); up != nil {
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

// pick returns an upstream of the rotation that this request has not tried.
// If it has tried them all, there is none in the pool's single round of
// retries; else a new round begins, with another than the last one tried.
func (p *Pool) pick(rot *rotation, a *attempts, r *http.Request, w http.ResponseWriter) *reverseproxy.Upstream {
	tried := a.tried
	if len(tried) > 0 && rot.exhausted(tried) {
		if p.cfg.SingleRound {
			return nil
		}
		a.tried, tried = nil, tried[len(tried)-1:]
		if rot.exhausted(tried) {
			tried = nil
		}
	}
	if p.cfg.Policy == nil || rot.whatever {
		return p.next(rot, tried)
	}
	return p.cfg.Policy.Select(rot.untried(tried), r, w)
}

// next returns the upstream whose turn it is, or nil if all are full or
// tried. Like Caddy's round_robin it begins with the second one.
func (p *Pool) next(rot *rotation, tried []*reverseproxy.Upstream) *reverseproxy.Upstream {
	n := uint64(len(rot.turns))
	for range n {
		up := rot.turns[p.cursor.Add(1)%n]
		if !up.Full() && !slices.Contains(tried, up) {
			return up
		}
	}
	for _, up := range rot.turns { // others may have taken our turns meanwhile
		if !up.Full() && !slices.Contains(tried, up) {
			return up
		}
	}
	return nil
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
