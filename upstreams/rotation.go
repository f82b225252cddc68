package upstreams

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
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
	// mixed are both ups and trials in config order, for policies.
	mixed []*upstream
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
	trials, mixed := [2][]*upstream{}, [2][]*upstream{}
	pending := false
	for _, at := range places {
		tier := min(at.tier, healthcheck.Backup)
		switch {
		case at.weight == 0:
		case at.target.InRotation():
			tiers[tier] = append(tiers[tier], at)
			mixed[tier] = append(mixed[tier], at.upstream)
		case at.target.Mode() != healthcheck.Ready:
		case at.target.Trial() != 0:
			trials[tier] = append(trials[tier], at.upstream)
			mixed[tier] = append(mixed[tier], at.upstream)
		case at.target.Status() == healthcheck.Unknown:
			pending = true
		}
	}
	rot := arrange(tiers[healthcheck.Primary])
	backup := arrange(tiers[healthcheck.Backup])
	rot.trials, rot.mixed = trials[healthcheck.Primary], mixed[healthcheck.Primary]
	switch {
	case len(rot.ups) == 0:
		backup.trials = slices.Concat(rot.trials, trials[healthcheck.Backup])
		backup.mixed = slices.Concat(rot.mixed, mixed[healthcheck.Backup])
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
	weights := make([]int, len(places))
	for i, at := range places {
		rot.ups = append(rot.ups, at.upstream)
		rot.pool = append(rot.pool, at.proxy)
		weights[i] = at.weight
	}
	turns := smooth(weights)
	rot.turns = make([]*upstream, len(turns))
	for i, at := range turns {
		rot.turns[i] = rot.ups[at]
	}
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
