// Package caddyfile parses the load_balance directive. Its options are those
// of Caddy's reverse_proxy, which Caddy's own parser reads, and a few more,
// which are taken out beforehand and read here.
package caddyfile

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// Directive is a parsed load_balance directive. What was not given has its
// zero value; defaults are not filled in.
type Directive struct {
	// What Caddy's parser made of Caddy's options. What the fields below
	// hold is moved out of it: Upstreams, HealthChecks.Active and
	// LoadBalancing.Retries are nil or zero, and HealthChecks and
	// LoadBalancing are nil if nothing else is left in them.
	Proxy *reverseproxy.Handler

	// The name of the pool.
	Name string

	// The upstreams in the order of the config, port ranges expanded, with
	// the options of `upstream` blocks.
	Upstreams []upstreams.Config

	// The active health checks; nil if no option of them was given.
	Active *healthcheck.Config

	// How many retries a request has; nil if not given.
	Retries *int

	// Over how long the share of an upstream that came back grows.
	SlowStart caddy.Duration

	// How long a request waits for first results; nil if not given.
	StartWait *caddy.Duration

	// What a request gets when nothing is in rotation.
	WhenAllDown string
}

// Parse parses a load_balance directive. Syntax:
//
//	load_balance [<matcher>] [<upstreams...>] {
//	    # everything of reverse_proxy, and:
//
//	    name <pool>
//	    upstream <address> {
//	        weight       <1..256>
//	        max_requests <n>
//	        backup
//	    }
//	    slow_start    <duration>
//	    start_wait    <duration>
//	    when_all_down 503|try_all
//
//	    # active health checking
//	    health_protocol      http|tcp|grpc [<service>]|none
//	    health_increment     <duration>
//	    health_max_interval  <duration>
//	    health_jitter        <percent>
//	    health_max_failures  <count>|never
//	    health_readmit_after <duration>|never
//	}
//
// An upstream is given as an argument of the directive, with `to`, or with
// `upstream`, which takes one address in any form that `to` takes, and
// optionally a block with options. If the address has a port range, the
// options hold for each of its ports. The options may stand in any order.
//
// Zero is valid for slow_start, start_wait, health_increment and
// health_jitter; the percent sign of the latter is optional. A
// health_max_interval below health_interval (default: 5s) is an error, and so
// is weight or slow_start beside an lb_policy other than round_robin and
// smooth_round_robin, or weight beside weights of lb_policy, and any of these
// options given twice in its block, or given twice for the same address; only
// `upstream` itself may be repeated.
func Parse(h httpcaddyfile.Helper) (*Directive, error) {
	var tokens lex.Segment
	for h.Next() {
		tokens = append(tokens, h.Token())
	}
	line, body, rest := split(tokens)

	p := &parser{
		dir:  new(Directive),
		seen: make(given),
		sets: make(map[string]upstreamSet),
	}
	p.stock = slices.Clone(line)
	for _, segment := range body {
		if err := p.read(segment); err != nil {
			return nil, err
		}
	}
	p.stock = append(p.stock, rest...)

	proxy := unsetHandler()
	if err := proxy.UnmarshalCaddyfile(lex.NewDispenser(p.stock)); err != nil {
		return nil, err
	}
	if err := proxy.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	if err := p.take(proxy); err != nil {
		return nil, err
	}
	return p.dir, nil
}

// A parser parses one directive.
type parser struct {
	dir   *Directive
	stock lex.Segment            // the tokens for Caddy's parser
	seen  given                  // our options
	sets  map[string]upstreamSet // by the address to dial

	weight lex.Segment // the first weight in an `upstream` block
}

// read reads an option of ours, or leaves it to Caddy's parser.
func (p *parser) read(segment lex.Segment) error {
	read, ours := options[segment.Directive()]
	if !ours {
		p.stock = append(p.stock, segment...)
		return nil
	}
	if err := p.seen.add(segment); err != nil {
		return err
	}
	return read(segment, p)
}

// active returns the active health checks, which have an option from now on.
func (p *parser) active() *healthcheck.Config {
	if p.dir.Active == nil {
		p.dir.Active = new(healthcheck.Config)
	}
	return p.dir.Active
}
