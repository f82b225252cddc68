package upstreams

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

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

// Upstream is what is known about one upstream of a pool, to be shown.
type Upstream struct {
	healthcheck.Info
	Target *healthcheck.Target
	// Pool is the name of the pool, Address the address as configured.
	Pool, Address string
	// InRotation says whether it is eligible for new requests.
	InRotation bool
	// Weight is its share of the turns, over all its places.
	Weight int
	// InFlight counts the attempts under way.
	InFlight int
	// Requests counts attempts, Errors those that got no response through no
	// fault of the client. Both outlive reloads.
	Requests, Errors uint64
}

// Each calls f for every upstream of the pool, in config order, until f
// returns false.
func (p *Pool) Each(f func(Upstream) bool) {
	name, list := p.Name(), p.places.Load().list
	weights := p.weights()
	in := make(map[*reverseproxy.Upstream]bool)
	for _, up := range p.rotation.Load().pool {
		in[up] = true
	}
	for _, at := range list {
		u := at.upstream
		weight, first := weights[u.address]
		if !first {
			continue
		}
		delete(weights, u.address)
		shown := Upstream{
			Info: u.target.Info(), Target: u.target, Pool: name, Address: u.address,
			InRotation: in[u.proxy], Weight: weight, InFlight: u.account.host.NumRequests(),
			Requests: u.account.requests.Load(), Errors: u.account.errors.Load(),
		}
		if !f(shown) {
			return
		}
	}
}
