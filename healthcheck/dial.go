package healthcheck

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Names that reverse_proxy's transports read from a request's context.
const (
	dialInfoKey          = caddy.CtxKey("reverse_proxy.dial_info")
	proxyProtocolInfoVar = "reverse_proxy.proxy_protocol_info"
)

// withPlace returns a context that sends the pool's transport to a place.
// What the PROXY protocol says is that the connection is this machine's own.
func (p *Prober) withPlace(ctx context.Context, at place) context.Context {
	if ppt, ok := p.transport.(reverseproxy.ProxyProtocolTransport); ok && ppt.ProxyProtocolEnabled() {
		self := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
		caddyhttp.SetVar(ctx, proxyProtocolInfoVar, reverseproxy.ProxyProtocolInfo{AddrPort: self})
	}
	return context.WithValue(ctx, dialInfoKey, at.dial)
}

// scheme returns what the pool's requests to a place speak, http or https.
func (p *Prober) scheme(at place) string {
	target := url.URL{Scheme: "http"}
	if over, ok := p.transport.(reverseproxy.HealthCheckSchemeOverriderTransport); ok {
		_, port, _ := net.SplitHostPort(at.host)
		over.OverrideHealthCheckScheme(&target, port)
	}
	return target.Scheme
}

// dial opens a connection to a place as the pool's HTTP transport does: with
// its timeouts, resolver, local address, PROXY protocol and TLS. Any other
// transport is only known to itself: then it is a connection and nothing else.
// The protocols, if any, are what the TLS handshake offers instead of the
// transport's own.
func (p *Prober) dial(ctx context.Context, at place, protocols ...string) (net.Conn, error) {
	pool, ok := p.transport.(*reverseproxy.HTTPTransport)
	if !ok {
		return new(net.Dialer).DialContext(ctx, at.dial.Network, at.dial.Address)
	}
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, make(map[string]any))
	conn, err := pool.Transport.DialContext(p.withPlace(ctx, at), at.dial.Network, at.dial.Address)
	if err != nil || p.scheme(at) != "https" {
		return conn, err
	}
	if most := pool.Transport.TLSHandshakeTimeout; most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	secure := tls.Client(conn, tlsConfig(pool, at, protocols))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

// tlsConfig returns the TLS config of a transport for a place.
func tlsConfig(pool *reverseproxy.HTTPTransport, at place, protocols []string) *tls.Config {
	config := new(tls.Config)
	if pool.Transport.TLSClientConfig != nil {
		config = pool.Transport.TLSClientConfig.Clone()
	}
	config.ServerName = at.repl.ReplaceAll(config.ServerName, "")
	if config.ServerName == "" {
		config.ServerName = at.host
		if host, _, err := net.SplitHostPort(at.host); err == nil {
			config.ServerName = host
		}
	}
	if protocols != nil {
		config.NextProtos = protocols
	}
	return config
}
