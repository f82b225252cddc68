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

// rotation is an immutable picture of the upstreams in rotation: of the
// primaries, or of the backups if no primary is in rotation.
type rotation struct {
	// turns is the order in which round robin goes through them.
	turns []*upstream
	// ups are the same in config order, and pool too, for other policies.
	ups  []*upstream
	pool reverseproxy.UpstreamPool
	// backup is the rotation of the backups behind primaries, for requests
	// that have tried all of these. Nil if there is none.
	backup *rotation
	// trials are ejected upstreams that wait for a trial request.
	trials []*upstream
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

// newRotation returns the rotation of those places. Upstreams without weight
// are never in it.
func newRotation(places []place) *rotation {
	tiers := [2][]place{}
	trials := [2][]*upstream{}
	pending := false
	for _, at := range places {
		tier := min(at.tier, healthcheck.Backup)
		switch {
		case at.weight == 0:
		case at.target.InRotation():
			tiers[tier] = append(tiers[tier], at)
		case at.target.Trial() != 0:
			trials[tier] = append(trials[tier], at.upstream)
		case at.target.Status() == healthcheck.Unknown:
			pending = true
		}
	}
	rot := arrange(tiers[healthcheck.Primary])
	backup := arrange(tiers[healthcheck.Backup])
	rot.trials = trials[healthcheck.Primary]
	switch {
	case len(rot.ups) == 0:
		backup.trials = append(rot.trials, trials[healthcheck.Backup]...)
		rot = backup
	case len(backup.ups) > 0:
		rot.backup = backup
	}
	rot.pending = pending
	return rot
}

// wholeRotation returns the rotation of all places with a weight, whatever
// their status.
func wholeRotation(places []place) *rotation {
	rot := arrange(slices.DeleteFunc(slices.Clone(places), func(at place) bool { return at.weight == 0 }))
	rot.whatever = true
	return rot
}

// arrange returns the rotation of exactly those places.
func arrange(places []place) *rotation {
	rot := new(rotation)
	for _, at := range places {
		rot.ups = append(rot.ups, at.upstream)
		rot.pool = append(rot.pool, at.proxy)
	}
	rot.turns = smooth(places)
	return rot
}

// eligible returns all upstreams that are in rotation, backups included.
func (rot *rotation) eligible() []*upstream {
	if rot.backup == nil {
		return rot.ups
	}
	return slices.Concat(rot.ups, rot.backup.ups)
}

// exhausted reports whether the request has tried all of the rotation.
func (rot *rotation) exhausted(r *Request) bool {
	return !slices.ContainsFunc(rot.ups, func(u *upstream) bool { return !r.hasTried(u) })
}

// smooth spreads the turns of every place evenly over one period, each as
// often as its weight says: at every step all gain their weight, the highest
// takes the turn and pays the sum. With equal weights it is the given order.
func smooth(places []place) []*upstream {
	weights := reduced(places)
	sum := 0
	for _, w := range weights {
		sum += w
	}
	turns := make([]*upstream, 0, sum)
	if sum == len(places) { // all equal
		for _, at := range places {
			turns = append(turns, at.upstream)
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
		turns = append(turns, places[best].upstream)
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
