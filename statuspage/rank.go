package statuspage

import (
	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// rank is how much attention an upstream needs, the most first.
type rank uint8

const (
	down rank = iota
	ejected
	retired
	unknown
	failing // up, but the last check failed
	maintained
	drained
	well
	ranks
)

// rankOf returns the rank of an upstream.
func rankOf(u *upstreams.Upstream) rank {
	switch {
	case u.Mode == healthcheck.Maint:
		return maintained
	case u.Status == healthcheck.Down:
		return down
	case u.Status == healthcheck.Retired:
		return retired
	case u.Status == healthcheck.Unknown:
		return unknown
	case u.Ejected:
		return ejected
	case u.Mode == healthcheck.Drain:
		return drained
	case u.Failures > 0:
		return failing
	}
	return well
}

// traffic is whether an upstream gets requests, and why not.
type traffic struct {
	// Word says it, Icon is the name of its shape.
	Word, Icon string
}

// trafficOf returns whether an upstream gets requests. Standby is the word of
// backups, which are eligible, but wait for all others to fail; the pool
// knows whether they have.
func trafficOf(u *upstreams.Upstream) traffic {
	switch {
	case u.Mode == healthcheck.Maint:
		return traffic{"maintenance", "maint"}
	case u.Mode == healthcheck.Drain:
		return traffic{"drained", "drain"}
	case u.Status == healthcheck.Unknown:
		return traffic{"not yet", "wait"}
	case u.Status != healthcheck.Up:
		return traffic{"out", "out"}
	case u.Ejected:
		return traffic{"ejected", "ejected"}
	case !u.InRotation:
		return traffic{"no share", "out"}
	}
	return traffic{"in rotation", "in"}
}
