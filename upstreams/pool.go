// Package upstreams chooses the upstream of every attempt.
//
// A Pool is the upstreams of one load_balance handler. What may be chosen is
// in its rotation, an immutable picture that is swapped as a whole when a
// status changes, so that choosing takes no lock:
//
//	health checks --status--> Pool --rebuilds--> rotation
//	      ^                                         |
//	      |     request --> Begin --> Select --chooses from it
//	      |                              |
//	      +--asks for checks, ejects-- observer --books to--> account
//	                                     |
//	                                 transport
//
// What an attempt tells about its upstream goes back to the health checks: a
// connection that did not come about, a failure that passive health checks
// count, silence. And if an upstream leaves rotation while attempts wait for
// it, these are cut loose, and go on to another one. A Request is the record
// of one request's attempts.
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
	// Weights are the weights by place that the policy has. If there are
	// none, the upstreams have their own.
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
	// Breaker is the circuit breaker, if any.
	Breaker reverseproxy.CircuitBreaker
	// SlowStart is how long the share of an upstream grows that came back.
	SlowStart time.Duration

	// Source returns the upstreams of a request, if any. SourceDepends says
	// that what it returns depends on the request.
	Source        reverseproxy.UpstreamSource
	SourceDepends bool

	// Passive says which requests fail, and how many of them eject. None do
	// if FailDuration is zero. UnhealthyRequestCount is the MaxRequests of
	// the upstreams without their own.
	Passive reverseproxy.PassiveHealthChecks
	// Retry says which requests are retried. If nil, none. RequestBuffers is
	// up to which size their bodies are buffered, -1 for all.
	Retry          *reverseproxy.LoadBalancing
	RequestBuffers int64

	// TryInterval is how long a request waits before it is retried.
	TryInterval time.Duration

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
	cfg     PoolConfig
	breaker reverseproxy.CircuitBreaker
	group   *healthcheck.Group
	prober  *healthcheck.Prober
	// plain is the transport if it can cancel requests.
	plain *http.Transport
	// check stands for what checks ask.
	check string
	// simple pools choose by round robin and nothing else, ejects says that
	// failures eject, timed that it matters how long attempts take.
	simple, ejects, timed bool
	// latency is how long a response may take, if that matters to ejections.
	latency time.Duration
	// began is what times of requests count from.
	began time.Time

	rotation atomic.Pointer[rotation]
	places   atomic.Pointer[places]
	changed  bell
	// serving is the list that serves at present, as the group knows it.
	serving atomic.Pointer[[]*upstream]
	// lately is the rotation of the latest list of the dynamic source.
	lately atomic.Pointer[listed]
	// watching says that a timer looks for silent upstreams.
	watching atomic.Bool
	// cursor is where round robin is. Every request moves it, so it stands
	// apart from what others only read: processors share memory by the line.
	_      line
	cursor atomic.Uint64
	_      line

	// waiting counts the requests that wait for first results.
	waiting atomic.Int64
	// episode is set from the first request that tried all upstreams until
	// one is in rotation.
	episode atomic.Bool

	ready    atomic.Bool
	rebuilds atomic.Int32
	// closed is set with mu held. caughtUp is when the closed pool has last
	// looked at what is known since.
	closed   atomic.Bool
	caughtUp atomic.Int64

	mu   sync.Mutex // guards what follows, and changes of places
	name string
	// overfull says that the dynamic source has returned too many upstreams.
	overfull bool

	// ramp rebuilds the rotation at the next step of a slow start, refresh
	// asks the dynamic source.
	ramp, refresh alarm
}

// line keeps what is written often away from what is read often.
type line [64]byte

// places are the upstreams as configured: an address given twice has two
// places, but is one upstream.
type places struct {
	list []place
	// all is the rotation of all of them, whatever their status.
	all *rotation
	// book finds the upstream that Caddy's code talks about.
	book map[*reverseproxy.Upstream]*upstream
	// byAddress are all upstreams, those of the dynamic source included.
	byAddress map[string]*upstream
	// ledger is the pool's, under its name.
	ledger *ledger
}

// upstream is one address of a pool.
type upstream struct {
	address string
	target  *healthcheck.Target
	account *account
	// proxy is the upstream for Caddy's code.
	proxy *reverseproxy.Upstream
	tier  healthcheck.Tier

	// waiters are the attempts that wait for it and may be cut loose; lost
	// says that all those are to be that begin before it is back.
	waiters waiters
	lost    atomic.Bool
	// taken is the ejection whose trial a request has taken.
	taken atomic.Uint64
	// probation says that it was ejected, and that no request has shown since
	// that it does its work again.
	probation atomic.Bool

	// dynamic upstreams come from the source, which has returned them last
	// at seen, counted from the pool's beginning. Those that are gone are not
	// the pool's any more.
	dynamic bool
	seen    atomic.Int64
	gone    atomic.Bool

	// Every attempt writes to what follows.
	_       line
	silence silence
	_       line
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
	switch {
	case cfg.Name != "":
	case len(cfg.Upstreams) > 0:
		cfg.Name = cfg.Upstreams[0].Dial
	case cfg.Source != nil:
		cfg.Name = "dynamic"
	}
	p := &Pool{cfg: cfg, name: cfg.Name, breaker: cfg.Breaker, prober: prober, began: time.Now()}
	p.check = cfg.Check.Identity()
	p.simple = cfg.Policy == nil && cfg.Breaker == nil && cfg.Source == nil
	p.ejects = cfg.Passive.FailDuration > 0
	if p.ejects {
		p.latency = time.Duration(cfg.Passive.UnhealthyLatency)
	}
	p.timed = cfg.Breaker != nil || p.latency > 0
	p.cfg.Passive.MaxFails = max(cfg.Passive.MaxFails, 1)
	p.plain = plain(cfg.Transport)
	p.rotation.Store(new(rotation))

	targets := p.targetConfigs()
	generation, fresh := registry.Generation(config)
	p.group = generation.Add(healthcheck.GroupConfig{
		Name: cfg.Name, Server: cfg.Server, Settings: cfg.Check.Settings(), Timeout: p.prober.Timeout(),
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

// targetConfigs returns the targets of the configured addresses.
func (p *Pool) targetConfigs() []healthcheck.TargetConfig {
	var targets []healthcheck.TargetConfig
	var unchecked []string
	weights := p.weights()
	for _, u := range p.cfg.Upstreams {
		weight, first := weights[u.Dial]
		if !first {
			continue
		}
		delete(weights, u.Dial)
		t := p.targetConfig(u.Dial, p.cfg.Uncheckable || !healthcheck.Checkable(u.Dial))
		switch {
		case weight == 0:
			t.Tier = healthcheck.Spare
		case u.Backup:
			t.Tier = healthcheck.Backup
		}
		if t.Probe == nil && p.prober.Checks() {
			unchecked = append(unchecked, u.Dial)
		}
		targets = append(targets, t)
	}
	if unchecked != nil {
		p.cfg.Logger.Warn("upstreams that depend on the request cannot be checked: they are always taken as up",
			zap.Strings("upstreams", unchecked))
	}
	if p.cfg.Source != nil && p.cfg.SourceDepends && p.prober.Checks() {
		p.cfg.Logger.Warn("a dynamic source that depends on the request cannot be asked without one: its upstreams are not checked, but taken as up")
	}
	if p.cfg.Check.Idle() {
		p.cfg.Logger.Warn("health checks send no HTTP request: what is configured about requests and responses has no effect",
			zap.String("protocol", p.cfg.Check.Protocol))
	}
	return targets
}

// targetConfig returns the target of an address, without checks where they
// are not wanted or not possible.
func (p *Pool) targetConfig(address string, uncheckable bool) healthcheck.TargetConfig {
	t := healthcheck.TargetConfig{
		Address: address, Check: p.check, Transport: p.cfg.TransportID,
		Probe: p.prober.Probe(address),
	}
	if t.Probe != nil && uncheckable {
		t.Check, t.Probe = healthcheck.ProtocolNone, nil
	}
	return t
}

// weights returns the weight of every address, over all its places.
func (p *Pool) weights() map[string]int {
	weights := make(map[string]int)
	for i, u := range p.cfg.Upstreams {
		weights[u.Dial] += p.weight(i)
	}
	return weights
}

// clone returns a copy to be changed.
func (pl *places) clone() *places {
	next := *pl
	next.book, next.byAddress = maps.Clone(pl.book), maps.Clone(pl.byAddress)
	return &next
}

// settle lays out the upstreams under the pool's name.
func (p *Pool) settle(name string) {
	next, old := new(places), p.places.Load()
	if old != nil { // attempts under way still refer to them
		next.book = maps.Clone(old.book)
	} else {
		old = new(places)
		next.book = make(map[*reverseproxy.Upstream]*upstream)
	}
	next.byAddress = make(map[string]*upstream)
	targets := make(map[string]*healthcheck.Target)
	for _, t := range p.group.Targets() {
		targets[t.Address()] = t
	}
	for i, cfg := range p.cfg.Upstreams {
		u := next.byAddress[cfg.Dial]
		if u == nil {
			u = p.newUpstream(name, targets[cfg.Dial], cfg.MaxRequests)
			next.add(u)
		}
		next.list = append(next.list, place{upstream: u, weight: p.weight(i)})
	}
	for _, u := range old.byAddress {
		if u.dynamic { // a request came before the name was final
			u.gone.Store(true)
			renamed := p.newUpstream(name, u.target, u.proxy.MaxRequests)
			renamed.dynamic = true
			renamed.seen.Store(u.seen.Load())
			next.add(renamed)
		}
	}
	next.all = wholeRotation(next.list)
	next.ledger = openLedger(name)
	p.lay(next)
}

// lay makes places those of the pool.
func (p *Pool) lay(next *places) {
	p.prober.Serve(len(next.byAddress))
	p.places.Store(next)
}

// newUpstream returns the upstream of a target, with its account in the books
// of the pool's name.
func (p *Pool) newUpstream(name string, t *healthcheck.Target, maxRequests int) *upstream {
	acc := openAccount(accountKey{name, t.Address()})
	u := &upstream{address: t.Address(), target: t, account: acc, tier: t.Tier()}
	u.proxy = &reverseproxy.Upstream{Host: acc.host, Dial: u.address, MaxRequests: maxRequests}
	if maxRequests == 0 {
		u.proxy.MaxRequests = p.cfg.Passive.UnhealthyRequestCount
	}
	return u
}

// add adds an upstream to places that nobody else sees yet.
func (pl *places) add(u *upstream) {
	pl.byAddress[u.address] = u
	pl.book[u.proxy] = u
}

// weight returns the weight of the i-th place.
func (p *Pool) weight(i int) int {
	switch {
	case len(p.cfg.Weights) == 0:
		return max(1, p.cfg.Upstreams[i].Weight)
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
	if p.closed.Load() {
		p.mu.Unlock()
		return
	}
	if old := p.name; name != old {
		p.name = name
		p.settle(name)
		p.closeAccounts(old)
	}
	p.mu.Unlock()
	p.Changed()
	if p.cfg.Source != nil {
		p.inherit()
	}
}

// Started implements healthcheck.Owner.
func (p *Pool) Started() {
	if p.cfg.Source != nil {
		go p.keepAsking()
	}
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
	places := p.places.Load()
	rot := newRotation(p.ramped(places.list))
	if len(rot.ups) > 0 {
		p.episode.Store(false)
	}
	for _, u := range places.byAddress {
		if u.lost.Load() && u.target.InRotation() {
			u.lost.Store(false)
		}
	}
	p.rotation.Store(rot)
	p.changed.ring()
}

// RetryAfter returns how long until the earliest scheduled check of the pool,
// in whole seconds, at least 1. It is 0 for a pool without upstreams.
func (p *Pool) RetryAfter() int {
	if len(p.places.Load().byAddress) == 0 {
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
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	p.closed.Store(true)
	p.ramp.close()
	p.refresh.close()
	p.group.Close()
	p.closeAccounts(p.name)
}

func (p *Pool) closeAccounts(name string) {
	closeLedger(name)
	for _, t := range p.group.Targets() {
		closeAccount(accountKey{name, t.Address()})
	}
}
