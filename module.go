// Package loadbalance is a load balancer for Caddy that backs off and gives
// up gracefully. It adds the directive load_balance and the handler
// http.handlers.load_balance, which embeds Caddy's reverse proxy and replaces
// two organs of it: the selection of upstreams and the active health checks.
//
//	caddyfile    the directive, split into Caddy's options and ours
//	upstreams    the upstreams of a handler: rotation, selection, attempts
//	healthcheck  which upstreams are fit to serve: statuses, schedule, checks
//	admin        the admin API, and the command caddy upstreams
//	metrics      what Prometheus sees
//	statuspage   the status page, directive load_balance_status
package loadbalance

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	_ "github.com/caddy-loadbalance/caddy-loadbalance/admin"         // the admin API
	_ "github.com/caddy-loadbalance/caddy-loadbalance/admin/command" // caddy upstreams
	"github.com/caddy-loadbalance/caddy-loadbalance/caddyfile"
	_ "github.com/caddy-loadbalance/caddy-loadbalance/statuspage" // the status page
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("load_balance", parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder("load_balance", httpcaddyfile.Before, "reverse_proxy")
}

// parseCaddyfile makes a handler of a load_balance directive, see
// caddyfile.Parse for the syntax.
func parseCaddyfile(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	directive, err := caddyfile.Parse(helper)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		Handler:     *directive.Proxy,
		Name:        directive.Name,
		Upstreams:   directive.Upstreams,
		SlowStart:   directive.SlowStart,
		StartWait:   directive.StartWait,
		WhenAllDown: directive.WhenAllDown,
	}
	if lb := directive.Proxy.LoadBalancing; lb != nil || directive.Retries != nil {
		h.LoadBalancing = &LoadBalancing{Retries: directive.Retries}
		if lb != nil {
			h.LoadBalancing.LoadBalancing = *lb
		}
	}
	var passive *reverseproxy.PassiveHealthChecks
	if checks := directive.Proxy.HealthChecks; checks != nil {
		passive = checks.Passive
	}
	if directive.Active != nil || passive != nil {
		h.HealthChecks = &HealthChecks{Active: directive.Active, Passive: passive}
	}
	h.Handler.LoadBalancing, h.Handler.HealthChecks = nil, nil
	return h, nil
}
