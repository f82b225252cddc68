package caddyfile

import (
	"slices"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// protocol reads
//
//	health_protocol http|tcp|grpc [<service>]|none
//
// Only grpc has a service.
func protocol(segment lex.Segment, p *parser) error {
	d := at(segment...)
	if d.NextArg() && d.Val() == healthcheck.ProtocolGRPC && d.NextArg() {
		service, err := readText(d.Val())
		if err != nil {
			return d.Errf("%s: the service %w", segment.Directive(), err)
		}
		p.active().Service = service
		segment = slices.Delete(slices.Clone(segment), 2, 3)
	}
	return protocolWord(segment, p)
}

// protocolWord reads the option without a service.
var protocolWord = single(
	readWord(healthcheck.ProtocolHTTP, healthcheck.ProtocolTCP, healthcheck.ProtocolGRPC, healthcheck.ProtocolNone),
	func(p *parser, protocol string) { p.active().Protocol = protocol },
)
