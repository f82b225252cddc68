package upstreams

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// maxTurns is the most turns that a rotation has, maxWeight what weights
// beyond count as.
const (
	maxTurns  = 1 << 16
	maxWeight = 1 << 31
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
	var chosen []place
	for _, at := range places {
		if at.weight > 0 && in(at.upstream) {
			rot.pool = append(rot.pool, at.proxy)
			chosen = append(chosen, at)
		}
	}
	rot.turns = smooth(chosen)
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

// smooth spreads the turns of every place evenly over one period, each as
// often as its weight says: at every step all gain their weight, the highest
// takes the turn and pays the sum. With equal weights it is the given order.
func smooth(places []place) []*reverseproxy.Upstream {
	weights := reduced(places)
	sum := 0
	for _, w := range weights {
		sum += w
	}
	turns := make([]*reverseproxy.Upstream, 0, sum)
	if sum == len(places) { // all equal
		for _, at := range places {
			turns = append(turns, at.proxy)
		}
		return turns
	}
	credit := make([]int, len(places))
	for range sum {
		best := 0
		for i, w := range weights {
			credit[i] += w
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		turns = append(turns, places[best].proxy)
	}
	return turns
}

// reduced returns the places' weights without their common divisor, scaled
// down where the sum would be above maxTurns, but to no less than 1.
func reduced(places []place) []int {
	divisor, sum := 0, 0
	for _, at := range places {
		divisor = gcd(divisor, at.weight)
	}
	weights := make([]int, len(places))
	for i, at := range places {
		weights[i] = min(at.weight/divisor, maxWeight)
		sum += weights[i]
	}
	if room := maxTurns - len(places); sum > maxTurns {
		for i, w := range weights {
			weights[i] = 1 + int(float64(w)/float64(sum)*float64(max(room, 0)))
		}
	}
	return weights
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
