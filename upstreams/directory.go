package upstreams

import (
	"maps"
	"slices"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// Pools returns the pools of the running config.
func Pools() []*Pool {
	var pools []*Pool
	for _, g := range registry.Current() {
		pools = append(pools, g.Owner().(*Pool))
	}
	return pools
}

// Changes returns the latest transitions of all pools, newest first.
func Changes() []healthcheck.Change { return registry.Changes() }

// NextChange returns a channel that is closed at the next transition.
func NextChange() <-chan struct{} { return registry.NextChange() }

// Upstream is what is known about one upstream of a pool, to be shown.
type Upstream struct {
	healthcheck.Info
	Target *healthcheck.Target
	// Pool is the name of the pool, Address the address as configured.
	Pool, Address string
	// InRotation says whether it is eligible for new requests, and the rotation
	// has it.
	InRotation bool
	// Weight is its share of the turns, over all its places. Backup says that
	// it gets requests only while no other is in rotation.
	Weight int
	Backup bool
	// InFlight counts the attempts under way.
	InFlight int
	// Requests counts attempts, Errors those that got no response through no
	// fault of the client, Retries those that were not the first of their
	// request. They outlive reloads, as does what follows.
	Requests, Errors, Retries uint64
	// Outcomes counts how attempts ended, by Outcome.
	Outcomes [numOutcomes]uint64
}

// Unserved returns how many requests ended without an attempt because there
// was no upstream for them. It outlives reloads.
func (p *Pool) Unserved() uint64 { return p.places.Load().ledger.unserved.Load() }

// Each calls f for every upstream of the pool until f returns false: in config
// order, then those of the dynamic source by address.
func (p *Pool) Each(f func(Upstream) bool) {
	name, places := p.Name(), p.places.Load()
	shown := make(map[*upstream]bool)
	weights := p.weights()
	in := make(map[*upstream]bool)
	for _, u := range p.rotation.Load().eligible() {
		in[u] = true
	}
	for _, at := range places.list {
		if u := at.upstream; !shown[u] {
			shown[u] = true
			if !f(u.show(name, weights[u.address], in[u])) {
				return
			}
		}
	}
	if len(places.byAddress) == len(shown) {
		return
	}
	for _, address := range slices.Sorted(maps.Keys(places.byAddress)) {
		if u := places.byAddress[address]; u.dynamic && !f(u.show(name, 1, true)) {
			return
		}
	}
}

// show returns what is known about an upstream of the pool of that name. in says
// that the rotation has it, or that requests make one of their own.
func (u *upstream) show(pool string, weight int, in bool) Upstream {
	shown := Upstream{
		Info: u.target.Info(), Target: u.target, Pool: pool, Address: u.address,
		InRotation: in && u.target.InRotation(), Weight: weight, Backup: u.tier == healthcheck.Backup,
		InFlight: u.account.host.NumRequests(),
		Requests: u.account.requests.Load(), Retries: u.account.retries.Load(),
	}
	for how := range shown.Outcomes {
		shown.Outcomes[how] = u.account.outcomes[how].Load()
	}
	shown.Errors = shown.Outcomes[Failed] + shown.Outcomes[Rescued]
	return shown
}
