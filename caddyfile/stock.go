package caddyfile

import (
	"slices"
	"time"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// take moves what the directive keeps for itself out of proxy, and refuses
// values of Caddy's options that would fail only later, when they are used.
func (p *parser) take(proxy *reverseproxy.Handler) error {
	p.dir.Proxy = proxy
	p.dir.Upstreams = p.mergeUpstreams(proxy)
	if err := p.takeRetries(proxy.LoadBalancing); err != nil {
		return err
	}
	if err := p.takeActive(proxy); err != nil {
		return err
	}
	return p.checkMaxInterval()
}

func (p *parser) takeRetries(balancing *reverseproxy.LoadBalancing) error {
	if balancing == nil {
		return nil
	}
	retries := balancing.Retries
	if retries < 0 {
		return p.mistake("lb_retries", "must not be negative")
	}
	if retries > 0 || p.zeroRetries() {
		p.dir.Retries = &retries
	}
	balancing.Retries = 0
	return nil
}

func (p *parser) takeActive(proxy *reverseproxy.Handler) error {
	checks := proxy.HealthChecks
	if checks == nil || checks.Active == nil {
		return nil
	}
	active := checks.Active
	switch {
	case active.Interval < 0:
		return p.mistake("health_interval", "must not be negative")
	case active.Timeout < 0:
		return p.mistake("health_timeout", "must not be negative")
	case active.Port < 0, active.Port > 65535, active.Port == 0 && p.zeroPort():
		return p.mistake("health_port", "must be from 1 to 65535")
	}
	p.active().ActiveHealthChecks = *active
	checks.Active = nil
	if checks.Passive == nil {
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

// zeroRetries reports whether `lb_retries 0` was given, when Caddy's parser
// left it at zero.
func (p *parser) zeroRetries() bool {
	return p.zero("lb_retries", func(again *reverseproxy.Handler) int {
		return again.LoadBalancing.Retries
	})
}

// zeroPort reports whether `health_port 0` was given, when Caddy's parser
// left it at zero.
func (p *parser) zeroPort() bool {
	return p.zero("health_port", func(again *reverseproxy.Handler) int {
		return again.HealthChecks.Active.Port
	})
}

// zero tells a zero from nothing: Caddy's parser reads the same tokens again,
// into a handler that has another value there.
func (p *parser) zero(option string, field func(*reverseproxy.Handler) int) bool {
	if _, mentioned := p.find(option); !mentioned {
		return false
	}
	const other = -1
	again := &reverseproxy.Handler{
		LoadBalancing: &reverseproxy.LoadBalancing{Retries: other},
		HealthChecks:  &reverseproxy.HealthChecks{Active: &reverseproxy.ActiveHealthChecks{Port: other}},
	}
	err := again.UnmarshalCaddyfile(lex.NewDispenser(p.stock))
	return err == nil && field(again) == 0
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
