package caddyfile

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"time"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// take moves what the directive keeps for itself out of proxy, and refuses
// values of Caddy's options that would fail only later, when they are used.
func (p *parser) take(proxy *reverseproxy.Handler) error {
	p.dir.Proxy = proxy
	p.dir.Upstreams = p.mergeUpstreams(proxy)
	if err := p.takeRetries(proxy); err != nil {
		return err
	}
	if err := p.checkPolicy(proxy); err != nil {
		return err
	}
	if err := p.takeActive(proxy); err != nil {
		return err
	}
	return p.checkMaxInterval()
}

// unset stands in the handler that Caddy's parser fills for what it cannot
// tell from zero otherwise. Nobody configures just that.
const unset = math.MinInt + 12_345

// unsetHandler returns the handler for Caddy's parser to fill.
func unsetHandler() *reverseproxy.Handler {
	return &reverseproxy.Handler{
		LoadBalancing: &reverseproxy.LoadBalancing{Retries: unset},
		HealthChecks:  &reverseproxy.HealthChecks{Active: &reverseproxy.ActiveHealthChecks{Port: unset}},
	}
}

func (p *parser) takeRetries(proxy *reverseproxy.Handler) error {
	balancing := proxy.LoadBalancing
	retries := balancing.Retries
	switch {
	case retries == unset:
	case retries < 0:
		return p.mistake("lb_retries", "must not be negative")
	default:
		p.dir.Retries = &retries
	}
	balancing.Retries = 0
	if reflect.DeepEqual(balancing, new(reverseproxy.LoadBalancing)) {
		proxy.LoadBalancing = nil
	}
	return nil
}

// checkPolicy refuses weights and a slow start beside a selection policy that
// does not go by them.
func (p *parser) checkPolicy(proxy *reverseproxy.Handler) error {
	var policy json.RawMessage
	if proxy.LoadBalancing != nil {
		policy = proxy.LoadBalancing.SelectionPolicyRaw
	}
	if err := upstreams.CheckWeight(policy); err != nil && p.weight != nil {
		return at(p.weight...).Errf("weight: %w", err)
	}
	slowStart, seen := p.seen["slow_start"]
	if err := upstreams.CheckSlowStart(policy); err != nil && seen {
		return at(slowStart...).Errf("slow_start: %w", err)
	}
	return nil
}

func (p *parser) takeActive(proxy *reverseproxy.Handler) error {
	active := proxy.HealthChecks.Active
	switch {
	case active.Interval < 0:
		return p.mistake("health_interval", "must not be negative")
	case active.Timeout < 0:
		return p.mistake("health_timeout", "must not be negative")
	case active.Port == unset:
		active.Port = 0
	case active.Port < 1, active.Port > 65535:
		return p.mistake("health_port", "must be from 1 to 65535")
	}
	if !reflect.DeepEqual(active, new(reverseproxy.ActiveHealthChecks)) {
		p.active().ActiveHealthChecks = *active
	}
	proxy.HealthChecks.Active = nil
	if proxy.HealthChecks.Passive == nil {
		proxy.HealthChecks = nil
	}
	return nil
}

// checkMaxInterval refuses a health_max_interval below the interval.
func (p *parser) checkMaxInterval() error {
	segment, seen := p.seen["health_max_interval"]
	if !seen {
		return nil
	}
	interval := time.Duration(p.dir.Active.Interval)
	if interval == 0 {
		interval = healthcheck.DefaultInterval
	}
	if time.Duration(p.dir.Active.MaxInterval) < interval {
		value := at(segment[1])
		return value.Errf("health_max_interval: must not be below health_interval, %s, not '%s'", interval, value.Val())
	}
	return nil
}

// mistake returns the error that the value of an option of Caddy's breaks
// rule.
func (p *parser) mistake(option, rule string) error {
	value, found := p.find(option)
	if !found { // not possible: it has a value
		return at(p.stock...).Errf("%s: %s", option, rule)
	}
	return value.Errf("%s: %s, not '%s'", option, rule, value.Val())
}

// find returns a dispenser at the last value of an option of Caddy's, which
// is the one that counts. The option need not be the first word of its line:
// Caddy takes several options on one line.
func (p *parser) find(option string) (*lex.Dispenser, bool) {
	_, body, _ := split(p.stock)
	for _, segment := range slices.Backward(body) {
		line := segment[:lineEnd(segment)]
		for i := len(line) - 2; i >= 0; i-- {
			if line[i].Text == option {
				return at(line[i+1]), true
			}
		}
	}
	return nil, false
}
