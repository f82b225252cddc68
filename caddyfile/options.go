package caddyfile

import (
	"github.com/caddyserver/caddy/v2"
	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// An option reads one option from its segment, and writes it into target.
type option[T any] func(segment lex.Segment, target T) error

// options are the options of the directive that are not Caddy's.
var options = map[string]option[*parser]{
	"name": single(readText, func(p *parser, pool string) {
		p.dir.Name = pool
	}),
	"upstream": upstream,
	"slow_start": single(readDuration, func(p *parser, ramp caddy.Duration) {
		p.dir.SlowStart = ramp
	}),
	"start_wait": single(readDuration, func(p *parser, wait caddy.Duration) {
		p.dir.StartWait = &wait
	}),
	"when_all_down": single(readWord(upstreams.AnswerUnavailable, upstreams.TryAll), func(p *parser, answer string) {
		p.dir.WhenAllDown = answer
	}),
	"health_protocol": protocol,
	"health_increment": single(readDuration, func(p *parser, increment caddy.Duration) {
		p.active().Increment = &increment
	}),
	"health_max_interval": single(readPositiveDuration, func(p *parser, longest caddy.Duration) {
		p.active().MaxInterval = longest
	}),
	"health_jitter": single(readPercent, func(p *parser, percent int) {
		p.active().Jitter = &percent
	}),
	"health_max_failures": single(orNever(readCount), func(p *parser, failures int) {
		p.active().MaxFailures = failures
	}),
	"health_readmit_after": single(orNever(readPositiveDuration), func(p *parser, after caddy.Duration) {
		p.active().ReadmitAfter = after
	}),
}

// upstreamOptions are the options in the block of `upstream`.
var upstreamOptions = map[string]option[*upstreams.Config]{
	"weight": single(readWeight, func(up *upstreams.Config, weight int) {
		up.Weight = weight
	}),
	"max_requests": single(readCount, func(up *upstreams.Config, requests int) {
		up.MaxRequests = requests
	}),
	"backup": flag(func(up *upstreams.Config) {
		up.Backup = true
	}),
}

// repeatable are the options that may stand more than once in a block.
var repeatable = map[string]bool{"upstream": true}

// single makes an option with exactly one argument and no block.
func single[T, V any](read reader[V], set func(target T, value V)) option[T] {
	return func(segment lex.Segment, target T) error {
		name := segment.Directive()
		d := at(segment...)
		text, err := argument(d)
		if err != nil {
			return err
		}
		value, err := read(text)
		if err != nil {
			return d.Errf("%s: %w, not '%s'", name, err, text)
		}
		if d.Next() {
			return d.Errf("%s: unexpected block", name)
		}
		set(target, value)
		return nil
	}
}

// flag makes an option without argument and block.
func flag[T any](set func(target T)) option[T] {
	return func(segment lex.Segment, target T) error {
		name := segment.Directive()
		d := at(segment...)
		if d.NextArg() {
			return d.Errf("%s: surplus argument '%s'", name, d.Val())
		}
		if d.Next() {
			return d.Errf("%s: unexpected block", name)
		}
		set(target)
		return nil
	}
}

// argument reads the one argument of the option at which d stands, and
// leaves d at it.
func argument(d *lex.Dispenser) (string, error) {
	name := d.Val()
	if !d.NextArg() {
		return "", d.Errf("%s: the argument is missing", name)
	}
	text := d.Val()
	if d.NextArg() {
		return "", d.Errf("%s: surplus argument '%s' after '%s'", name, d.Val(), text)
	}
	return text, nil
}

// given are the options that a block has had so far.
type given map[string]lex.Segment

// add refuses an option that was given before.
func (g given) add(segment lex.Segment) error {
	name := segment.Directive()
	first, twice := g[name]
	if twice && !repeatable[name] {
		return at(segment[0]).Errf("%s: given twice, first at %s:%d", name, first[0].File, first[0].Line)
	}
	g[name] = segment
	return nil
}
