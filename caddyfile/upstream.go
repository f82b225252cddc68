package caddyfile

import (
	"slices"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// upstream reads
//
//	upstream <address> {
//	    weight       <1..256>
//	    max_requests <n>
//	    backup
//	}
//
// The address goes on to Caddy's parser as `to <address>`.
func upstream(segment lex.Segment, p *parser) error {
	if _, err := argument(at(segment...)); err != nil {
		return err
	}
	line, body, _ := split(segment)
	line = slices.Clone(line[:2]) // without a brace

	var set upstreams.Config
	seen := make(given)
	for _, inner := range body {
		read, known := upstreamOptions[inner.Directive()]
		if !known {
			return at(inner...).Errf("upstream: unrecognized option %s", inner.Directive())
		}
		if err := seen.add(inner); err != nil {
			return err
		}
		if err := read(inner, &set); err != nil {
			return err
		}
	}
	if weight, given := seen["weight"]; given && p.weight == nil {
		p.weight = weight
	}
	if len(body) > 0 {
		if err := p.setUpstream(line, set); err != nil {
			return err
		}
	}

	line[0].Text = "to"
	p.stock = append(p.stock, line...)
	return nil
}

// setUpstream keeps the options of all addresses that the one on the line
// of an `upstream` stands for. Caddy's parser says which these are: it takes
// the line for a directive with one upstream.
func (p *parser) setUpstream(line lex.Segment, set upstreams.Config) error {
	var proxy reverseproxy.Handler
	if err := proxy.UnmarshalCaddyfile(lex.NewDispenser(line)); err != nil {
		return err
	}
	for _, up := range proxy.Upstreams {
		if first, twice := p.sets[up.Dial]; twice {
			return at(line[1]).Errf("upstream: options of '%s' given twice, first at %s:%d", up.Dial, first.token.File, first.token.Line)
		}
		p.sets[up.Dial] = upstreamSet{config: set, token: line[1]}
	}
	return nil
}

// An upstreamSet is what an `upstream` block says about an address.
type upstreamSet struct {
	config upstreams.Config
	token  lex.Token
}

// mergeUpstreams moves the upstreams out of proxy, and gives each the
// options of its address.
func (p *parser) mergeUpstreams(proxy *reverseproxy.Handler) []upstreams.Config {
	var merged []upstreams.Config
	for _, up := range proxy.Upstreams {
		config := p.sets[up.Dial].config
		config.Dial = up.Dial
		merged = append(merged, config)
	}
	proxy.Upstreams = nil
	return merged
}
