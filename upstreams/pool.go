// Package upstreams chooses the upstream of every attempt.
//
// A Pool is the upstreams of one load_balance handler. What may be chosen is
// in its rotation, an immutable picture that is swapped as a whole when a
// status changes, so that choosing takes no lock:
//
//	health checks --status--> Pool --rebuilds--> rotation
//	                                                |
//	request --> Begin --> Select --chooses from-----+
//	                         |
//	                      observer --books to--> account, asks for a check
//	                         |                   if it could not connect
//	                     transport
package upstreams

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// registry keeps what is known about all targets of the process.
var registry = healthcheck.NewRegistry()

// PoolConfig describes a pool.
type PoolConfig struct {
	// Name is the wanted name; the first address if empty. Server is the name
	// of the server whose handler this is.
	Name, Server string
	// Upstreams are the upstreams in the order of the config.
	Upstreams []Config
	// MaxRequests is the default of the upstreams without their own, 0 for
	// no limit.
	MaxRequests int
	// Weights are the weights by place, for weighted round robin. If nil, all
	// places have the same.
	Weights []int

	// Check configures the checks, which travel over Transport. TransportID
	// stands for it; results are carried over reloads while it is the same.
	Check       healthcheck.Config
	Transport   http.RoundTripper
	TransportID string
	// Uncheckable says that Transport depends on requests, so that checks
	// cannot be made with it.
	Uncheckable bool

	// Policy chooses among the upstreams in rotation. If nil, round robin.
	Policy reverseproxy.Selector
	// Dynamic chooses among the upstreams of a dynamic source.
	Dynamic reverseproxy.Selector
	// Breaker is the circuit breaker, if any.
	Breaker reverseproxy.CircuitBreaker

	// SingleRound ends a request that has tried all upstreams in rotation.
	SingleRound bool
	// Persistent makes every attempt of a request look again for upstreams,
	// though none was in rotation the last time: there is time between them.
	Persistent bool
	// StartWait is how long a request waits for first results.
	StartWait time.Duration
	// WhenAllDown is AnswerUnavailable or TryAll.
	WhenAllDown string

	// Context ends with the config.
	Context context.Context
	Logger  *zap.Logger
	Emit    func(event string, data map[string]any)
}

// Pool is the upstreams of one handler. It implements reverseproxy.Selector.
type Pool struct {
	cfg           PoolConfig
	breaker       reverseproxy.CircuitBreaker
	dynamicPolicy reverseproxy.Selector
	group         *healthcheck.Group
	varKey        string
	// simple pools choose by round robin and nothing else.
	simple bool

	rotation atomic.Pointer[rotation]
	cursor   atomic.Uint64
	places   atomic.Pointer[places]
	changed  bell
	// waiting counts the requests that wait for first results.
	waiting atomic.Int64
	// episode is set from the first request that tried all upstreams until
	// one is in rotation.
	episode atomic.Bool

	ready    atomic.Bool
	rebuilds atomic.Int32

	mu     sync.Mutex // guards name and closed
	name   string
	closed bool
}

// places are the upstreams as configured: an address given twice has two
// places, but is one upstream.
type places struct {
	list []place
	// all is the rotation of all of them, whatever their status.
	all *rotation
	// book finds the upstream that Caddy's code talks about.
	book map[*reverseproxy.Upstream]*upstream
}

// upstream is one address of a pool.
type upstream struct {
	address string
	target  *healthcheck.Target
	account *account
	// proxy is the upstream for Caddy's code.
	proxy *reverseproxy.Upstream
	// spare upstreams have no weight and so never a turn.
	spare bool
}

// NewPool makes the pool of a handler, as part of the generation of its
// config, for which any comparable value may stand. Nothing is checked before
// the generation starts; until then the pool follows what is known from an
// older config. The generation is returned with its first pool only: the
// caller has to arrange for its start.
func NewPool(cfg PoolConfig, config any) (*Pool, *healthcheck.Generation, error) {
	prober, err := healthcheck.NewProber(cfg.Check, cfg.Transport)
	if err != nil {
		return nil, nil, fmt.Errorf("health_checks.active.%w", err)
	}
	if cfg.Name == "" && len(cfg.Upstreams) > 0 {
		cfg.Name = cfg.Upstreams[0].Dial
	}
	p := &Pool{cfg: cfg, name: cfg.Name, breaker: cfg.Breaker, dynamicPolicy: cfg.Dynamic}
	p.simple = cfg.Policy == nil && cfg.Breaker == nil
	p.varKey = fmt.Sprintf("load_balance.attempts.%p", p)
	p.rotation.Store(new(rotation))

	targets := p.targetConfigs(prober)
	generation, fresh := registry.Generation(config)
	p.group = generation.Add(healthcheck.GroupConfig{
		Name: cfg.Name, Server: cfg.Server, Settings: cfg.Check.Settings(),
		Targets: targets, Owner: p, Logger: cfg.Logger, Emit: cfg.Emit,
	})
	p.settle(cfg.Name)
	p.ready.Store(true)
	p.Changed()
	if !fresh {
		generation = nil
	}
	return p, generation, nil
}

// targetConfigs returns the targets of the addresses, unchecked where checks
// are not wanted or not possible.
func (p *Pool) targetConfigs(prober *healthcheck.Prober) []healthcheck.TargetConfig {
	var targets []healthcheck.TargetConfig
	var unchecked []string
	weights := p.weights()
	for _, u := range p.cfg.Upstreams {
		weight, first := weights[u.Dial]
		if !first {
			continue
		}
		delete(weights, u.Dial)
		t := healthcheck.TargetConfig{
			Address: u.Dial, Check: p.cfg.Check.Identity(), Transport: p.cfg.TransportID,
			Probe: prober.Probe(u.Dial), Spare: weight == 0,
		}
		if t.Probe != nil && (p.cfg.Uncheckable || !healthcheck.Checkable(u.Dial)) {
			unchecked = append(unchecked, u.Dial)
			t.Check, t.Probe = healthcheck.ProtocolNone, nil
		}
		targets = append(targets, t)
	}
	if unchecked != nil {
		p.cfg.Logger.Warn("upstreams that depend on the request cannot be checked: they are always taken as up",
			zap.Strings("upstreams", unchecked))
	}
	if p.cfg.Check.Idle() {
		p.cfg.Logger.Warn("health checks send no HTTP request: what is configured about requests and responses has no effect",
			zap.String("protocol", p.cfg.Check.Protocol))
	}
	return targets
}

// weights returns the weight of every address, over all its places.
func (p *Pool) weights() map[string]int {
	weights := make(map[string]int)
	for i, u := range p.cfg.Upstreams {
		weights[u.Dial] += p.weight(i)
	}
	return weights
}

// settle lays out the upstreams under the pool's name.
func (p *Pool) settle(name string) {
	next := &places{book: make(map[*reverseproxy.Upstream]*upstream)}
	if old := p.places.Load(); old != nil { // attempts under way still refer to them
		maps.Copy(next.book, old.book)
	}
	byAddress := make(map[string]*upstream)
	targets := make(map[string]*healthcheck.Target)
	for _, t := range p.group.Targets() {
		targets[t.Address()] = t
	}
	weights := p.weights()
	for i, cfg := range p.cfg.Upstreams {
		u := byAddress[cfg.Dial]
		if u == nil {
			acc := openAccount(accountKey{name, cfg.Dial})
			u = &upstream{address: cfg.Dial, target: targets[cfg.Dial], account: acc, spare: weights[cfg.Dial] == 0}
			u.proxy = &reverseproxy.Upstream{Host: acc.host, Dial: cfg.Dial, MaxRequests: cfg.MaxRequests}
			if u.proxy.MaxRequests == 0 {
				u.proxy.MaxRequests = p.cfg.MaxRequests
			}
			byAddress[cfg.Dial] = u
			next.book[u.proxy] = u
		}
		next.list = append(next.list, place{upstream: u, weight: p.weight(i)})
	}
	next.all = newRotation(next.list, func(*upstream) bool { return true })
	next.all.whatever = true
	p.places.Store(next)
}

// weight returns the weight of the i-th place.
func (p *Pool) weight(i int) int {
	switch {
	case p.cfg.Weights == nil:
		return 1
	case i < len(p.cfg.Weights):
		return p.cfg.Weights[i]
	}
	return 0
}

// Name returns the name of the pool.
func (p *Pool) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

// Named implements healthcheck.Owner.
func (p *Pool) Named(name string) {
	p.mu.Lock()
	old := p.name
	if p.closed || name == old {
		p.mu.Unlock()
		return
	}
	p.name = name
	p.settle(name)
	p.mu.Unlock()
	p.closeAccounts(old)
	p.Changed()
}

// Changed implements healthcheck.Owner: it rebuilds the rotation. A change
// during a rebuild is absorbed by one more rebuild.
func (p *Pool) Changed() {
	if !p.ready.Load() || p.rebuilds.Add(1) > 1 {
		return
	}
	for seen := int32(1); ; seen = p.rebuilds.Load() {
		p.rebuild()
		if p.rebuilds.CompareAndSwap(seen, 0) {
			return
		}
	}
}

func (p *Pool) rebuild() {
	list := p.places.Load().list
	rot := newRotation(list, (*upstream).inRotation)
	for _, at := range list {
		rot.pending = rot.pending || !at.spare && at.target.Status() == healthcheck.Unknown
	}
	if len(rot.pool) > 0 {
		p.episode.Store(false)
	}
	p.rotation.Store(rot)
	p.changed.ring()
}

// RetryAfter returns how long until the earliest scheduled check of the pool,
// in whole seconds, at least 1. It is 0 for a pool without upstreams.
func (p *Pool) RetryAfter() int {
	if len(p.places.Load().list) == 0 {
		return 0
	}
	next, ok := p.group.NextCheck()
	if !ok {
		return 1
	}
	return max(1, int((time.Until(next)+time.Second-1)/time.Second))
}

// Close ends the checks of the pool. Requests under way may go on.
func (p *Pool) Close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return
	}
	p.group.Close()
	p.closeAccounts(p.name)
}

func (p *Pool) closeAccounts(name string) {
	for _, t := range p.group.Targets() {
		closeAccount(accountKey{name, t.Address()})
	}
}
