package loadbalance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/metrics"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// Defaults of the options below.
const (
	defaultRetries   = 5
	defaultStartWait = 5 * time.Second
)

// Handler is a reverse proxy that sends requests only to upstreams that are
// known to be up. It has every option of Caddy's reverse_proxy handler, with
// the same names and meaning, and those below. What differs by default:
//
//   - Active health checks are on, and an upstream gets no requests before it
//     has passed one.
//   - The selection policy is smooth_round_robin.
//   - A failed request is tried on up to 5 other upstreams, if neither
//     retries nor try_duration is set, and ends with its last error once it
//     has tried every upstream in rotation.
//
// The placeholders of reverse_proxy are set by this handler, too.
// `{http.reverse_proxy.upstream.fails}` is always 0.
type Handler struct {
	reverseproxy.Handler

	// The name of the pool in the admin API, in logs and in events. What is
	// known about an upstream goes with it over reloads. A second pool of the
	// same name becomes name#2. Default: the first upstream's address,
	// or "dynamic" if there is none.
	Name string `json:"name,omitempty"`

	// The upstreams to proxy to.
	Upstreams []upstreams.Config `json:"upstreams,omitempty"`

	// How requests are distributed between the upstreams in rotation.
	LoadBalancing *LoadBalancing `json:"load_balancing,omitempty"`

	// How it is found out which upstreams are fit to serve.
	HealthChecks *HealthChecks `json:"health_checks,omitempty"`

	// Over how long the share of an upstream that came back grows from 10 % to
	// full, in ten steps. For the policies round_robin and smooth_round_robin
	// only. Default: 0, full at once.
	SlowStart caddy.Duration `json:"slow_start,omitempty"`

	// How long a request waits for the first results of upstreams that have
	// not been checked yet, when nothing is in rotation. 0 means not at all.
	// Default: 5s.
	StartWait *caddy.Duration `json:"start_wait,omitempty"`

	// What happens to a request when nothing is in rotation: `503` answers
	// with that status and a Retry-After header, `try_all` tries all
	// upstreams in turn, but for those in maintenance. Default: `503`.
	WhenAllDown string `json:"when_all_down,omitempty"`

	pool *upstreams.Pool
	// proxying is set once the embedded handler has something to clean up.
	proxying bool
	// defaultTransport is the transport if none is configured: nobody but us
	// cleans it up.
	defaultTransport http.RoundTripper
}

// LoadBalancing has the options of reverse_proxy's load balancing.
type LoadBalancing struct {
	reverseproxy.LoadBalancing

	// How many times a request is retried. 0 means not at all, or, if
	// try_duration is set, as often as that allows. Default: 5, or as often
	// as try_duration allows if that is set.
	Retries *int `json:"retries,omitempty"`
}

// HealthChecks configures active and passive health checks.
type HealthChecks struct {
	// Active health checks run in the background. They are on by default.
	Active *healthcheck.Config `json:"active,omitempty"`

	// Passive health checks judge upstreams by the requests that they serve:
	// after max_fails failures within fail_duration, an upstream is ejected.
	// Failures are counted per pool, and never take the last upstream of a
	// pool out of rotation. unhealthy_request_count is the default of
	// max_requests.
	Passive *reverseproxy.PassiveHealthChecks `json:"passive,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.load_balance",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets up the handler. Nothing is checked before the config that it
// is part of has started.
func (h *Handler) Provision(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	events := app.(*caddyevents.App)
	if err := metrics.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}

	cfg := h.poolConfig(ctx, events)
	h.Handler.LoadBalancing = h.stockLoadBalancing()
	h.proxying = true
	if err := h.Handler.Provision(ctx); err != nil {
		return err
	}
	logLazily(&h.Handler)
	transport := h.Transport
	if cfg.TransportID == "" {
		h.defaultTransport = transport
	}
	cfg.Transport = transport
	if cfg.Check.Protocol == "" {
		cfg.Check.Protocol = defaultProtocol(transport)
	}
	cfg.Uncheckable = !healthcheck.CheckableTransport(json.RawMessage(cfg.TransportID), cfg.Check.Protocol)
	h.setPolicy(&cfg)
	cfg.Source, h.DynamicUpstreams = h.DynamicUpstreams, nil
	cfg.Retry = h.Handler.LoadBalancing
	cfg.TryInterval = time.Duration(cfg.Retry.TryInterval)
	cfg.Retry.TryInterval = 0 // Caddy's proxy would give up waiting, and the request, at a reload

	pool, generation, err := upstreams.NewPool(cfg, events)
	if err != nil {
		return err
	}
	h.pool = pool
	h.Transport = pool.Observe(transport)
	h.Handler.LoadBalancing.SelectionPolicy = pool
	if generation != nil {
		return events.On("started", starter{generation})
	}
	return nil
}

// poolConfig returns the part of the pool's config that is known before the
// embedded handler is provisioned.
func (h *Handler) poolConfig(ctx caddy.Context, events *caddyevents.App) upstreams.PoolConfig {
	logger := ctx.Logger()
	cfg := upstreams.PoolConfig{
		Name:        h.Name,
		Upstreams:   h.Upstreams,
		TransportID: string(h.TransportRaw),
		StartWait:   defaultStartWait,
		WhenAllDown: h.WhenAllDown,
		SlowStart:   time.Duration(h.SlowStart),

		SourceDepends:  healthcheck.DependsOnRequest(h.DynamicUpstreamsRaw),
		RequestBuffers: h.RequestBuffers,

		Context: ctx,
		Logger:  logger,
		Emit: func(event string, data map[string]any) {
			if ctx.Err() == nil && events.ShouldEmit(event) {
				events.Emit(ctx, event, data)
			}
		},
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		cfg.Server = server.Name()
	}
	if h.StartWait != nil {
		cfg.StartWait = time.Duration(*h.StartWait)
	}
	if h.HealthChecks != nil && h.HealthChecks.Active != nil {
		cfg.Check = *h.HealthChecks.Active
	}
	if h.HealthChecks != nil && h.HealthChecks.Passive != nil {
		cfg.Passive = *h.HealthChecks.Passive
	}
	if len(h.Upstreams) == 0 && h.DynamicUpstreamsRaw == nil {
		logger.Warn("no upstreams are configured: every request will be answered with 503")
	}
	if lb := h.LoadBalancing; lb != nil {
		cfg.Persistent = lb.TryDuration > 0 || lb.TryInterval > 0
		cfg.SingleRound = lb.Retries == nil && lb.TryDuration == 0
	} else {
		cfg.SingleRound = true
	}
	return cfg
}

// stockLoadBalancing returns the load balancing of the embedded handler.
func (h *Handler) stockLoadBalancing() *reverseproxy.LoadBalancing {
	lb := new(reverseproxy.LoadBalancing)
	var retries *int
	if h.LoadBalancing != nil {
		*lb = h.LoadBalancing.LoadBalancing
		retries = h.LoadBalancing.Retries
	}
	switch {
	case retries != nil:
		lb.Retries = *retries
	case lb.TryDuration == 0:
		lb.Retries = defaultRetries
	}
	return lb
}

// setPolicy translates the selection policy that the embedded handler has
// loaded. Those that count positions in the pool run on our own selector.
func (h *Handler) setPolicy(cfg *upstreams.PoolConfig) {
	cfg.Breaker = h.CB
	switch policy := h.Handler.LoadBalancing.SelectionPolicy.(type) {
	case *reverseproxy.RoundRobinSelection:
	case *reverseproxy.WeightedRoundRobinSelection:
		cfg.Weights = policy.Weights
	case *upstreams.SmoothRoundRobin:
		cfg.Weights = policy.Weights
	default:
		if h.LoadBalancing == nil || h.LoadBalancing.SelectionPolicyRaw == nil {
			return
		}
		cfg.Policy = policy
	}
}

// defaultProtocol returns what checks speak if nothing is configured.
func defaultProtocol(transport http.RoundTripper) string {
	module, ok := transport.(caddy.Module)
	if ok && module.CaddyModule().ID == "http.reverse_proxy.transport.fastcgi" {
		return healthcheck.ProtocolTCP
	}
	return healthcheck.ProtocolHTTP
}

// Validate reports the first bad value, by its place in the JSON config.
func (h *Handler) Validate() error {
	var policy json.RawMessage
	if h.LoadBalancing != nil {
		policy = h.LoadBalancing.SelectionPolicyRaw
	}
	weightless := upstreams.CheckWeight(policy)
	first := make(map[string]upstreams.Config)
	for i, u := range h.Upstreams {
		if err := u.Validate(); err != nil {
			return fmt.Errorf("upstreams[%d].%w", i, err)
		}
		if weightless != nil && u.Weight != 0 {
			return fmt.Errorf("upstreams[%d].weight: %w", i, weightless)
		}
		if other, twice := first[u.Dial]; twice && other != u {
			return fmt.Errorf("upstreams[%d].dial: %s is given twice with different options", i, u.Dial)
		}
		first[u.Dial] = u
	}
	if h.HealthChecks != nil && h.HealthChecks.Active != nil {
		if err := h.HealthChecks.Active.Validate(); err != nil {
			return fmt.Errorf("health_checks.active.%w", err)
		}
	}
	if h.LoadBalancing != nil && h.LoadBalancing.Retries != nil && *h.LoadBalancing.Retries < 0 {
		return fmt.Errorf("load_balancing.retries: must not be negative: %d", *h.LoadBalancing.Retries)
	}
	if h.SlowStart < 0 {
		return fmt.Errorf("slow_start: must not be negative: %s", time.Duration(h.SlowStart))
	}
	if err := upstreams.CheckSlowStart(policy); err != nil && h.SlowStart != 0 {
		return fmt.Errorf("slow_start: %w", err)
	}
	if h.StartWait != nil && *h.StartWait < 0 {
		return fmt.Errorf("start_wait: must not be negative: %s", time.Duration(*h.StartWait))
	}
	switch h.WhenAllDown {
	case "", upstreams.AnswerUnavailable, upstreams.TryAll:
	default:
		return fmt.Errorf("when_all_down: must be 503 or try_all, not '%s'", h.WhenAllDown)
	}
	return nil
}

// Cleanup ends the checks and closes idle connections. It may be called after
// a failed Provision.
func (h *Handler) Cleanup() error {
	if h.pool != nil {
		h.pool.Close()
	}
	if cleaner, ok := h.defaultTransport.(caddy.CleanerUpper); ok {
		_ = cleaner.Cleanup()
	}
	if !h.proxying {
		return nil
	}
	return h.Handler.Cleanup()
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	record := h.pool.Begin(r.Context())
	defer record.End()
	err := h.Handler.ServeHTTP(w, r, next)
	if err != nil && record.Unserved() {
		if seconds := h.pool.RetryAfter(); seconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
		}
	}
	return err
}

// starter starts a generation of pools when the config has started.
type starter struct{ generation *healthcheck.Generation }

// Handle implements caddyevents.Handler.
func (s starter) Handle(_ context.Context, event caddy.Event) error {
	if event.Origin() == nil { // from Caddy itself
		s.generation.Start()
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
