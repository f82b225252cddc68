package upstreams

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// rotation is an immutable picture of the upstreams in rotation.
type rotation struct {
	// turns is the order in which round robin goes through them.
	turns []*reverseproxy.Upstream
	// pool is the same upstreams for other policies, in config order.
	pool reverseproxy.UpstreamPool
	// pending says that some upstream has not had its first result yet.
	pending bool
	// whatever says that it has all upstreams, which round robin goes
	// through, whatever the policy.
	whatever bool
}

// place is a place in the pool: an address given twice has two.
type place struct {
	*upstream
	// weight is how many turns the place has in a period.
	weight int
}

// newRotation returns the rotation of the places for which in is true. Those
// without weight are never in it.
func newRotation(places []place, in func(*upstream) bool) *rotation {
	rot := new(rotation)
	var weights []int
	for _, at := range places {
		if at.weight > 0 && in(at.upstream) {
			rot.pool = append(rot.pool, at.proxy)
			weights = append(weights, at.weight)
		}
	}
	turns := smooth(weights)
	rot.turns = make([]*reverseproxy.Upstream, len(turns))
	for i, at := range turns {
		rot.turns[i] = rot.pool[at]
	}
	return rot
}

// exhausted reports whether all upstreams of the rotation are among those.
func (rot *rotation) exhausted(tried []*reverseproxy.Upstream) bool {
	return !slices.ContainsFunc(rot.pool, func(up *reverseproxy.Upstream) bool {
		return !slices.Contains(tried, up)
	})
}

// untried returns the pool without the given upstreams.
func (rot *rotation) untried(tried []*reverseproxy.Upstream) reverseproxy.UpstreamPool {
	if len(tried) == 0 {
		return rot.pool
	}
	return slices.DeleteFunc(slices.Clone(rot.pool), func(up *reverseproxy.Upstream) bool {
		return slices.Contains(tried, up)
	})
}

// inRotation reports whether u is eligible for new requests.
func (u *upstream) inRotation() bool { return !u.spare && u.target.Status() == healthcheck.Up }
