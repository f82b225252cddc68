package upstreams

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// attempts is what one request has tried so far in one pool. Only the
// request's own goroutine uses it.
type attempts struct {
	// tried are the upstreams, triedDynamic the addresses of dynamic ones.
	tried        []*reverseproxy.Upstream
	triedDynamic []string
	room         [4]*reverseproxy.Upstream
	// any says that there has been an attempt.
	any bool
	// startBy ends the request's waiting for first results.
	startBy time.Time
	// gaveUp says that nothing was in rotation.
	gaveUp bool
}

// Begin starts the record of a request's attempts. The handler calls it once
// a request, before the first attempt.
func (p *Pool) Begin(ctx context.Context) {
	a := new(attempts)
	a.tried = a.room[:0]
	caddyhttp.SetVar(ctx, p.varKey, a)
}

// Unserved reports whether the request was given up because nothing was in
// rotation, without a single attempt.
func (p *Pool) Unserved(ctx context.Context) bool {
	a := p.attempts(ctx)
	return a.gaveUp && !a.any
}

func (p *Pool) attempts(ctx context.Context) *attempts {
	if a, ok := caddyhttp.GetVar(ctx, p.varKey).(*attempts); ok {
		return a
	}
	return new(attempts)
}

// observer is the transport of a pool: it books every attempt to its
// upstream.
type observer struct {
	http.RoundTripper
	pool *Pool
}

// Observe returns transport with every attempt booked to its upstream.
func (p *Pool) Observe(transport http.RoundTripper) http.RoundTripper {
	return &observer{RoundTripper: transport, pool: p}
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := reverseproxy.GetDialInfo(req.Context())
	a := o.pool.attempts(req.Context())
	a.any = true
	u := o.pool.places.Load().book[info.Upstream]
	if u == nil {
		if info.Upstream != nil {
			a.triedDynamic = append(a.triedDynamic, info.Upstream.Dial)
		}
		return o.RoundTripper.RoundTrip(req)
	}
	a.tried = append(a.tried, u.proxy)
	u.account.requests.Add(1)

	var body *clientBody
	if req.Body != nil && req.Body != http.NoBody {
		body = &clientBody{ReadCloser: req.Body}
		req.Body = body // req is this attempt's own
	}
	start := time.Now()
	resp, err := o.RoundTripper.RoundTrip(req)
	if err == nil {
		if o.pool.breaker != nil {
			o.pool.breaker.RecordMetric(resp.StatusCode, time.Since(start))
		}
		return resp, nil
	}
	if req.Context().Err() != nil || body != nil && body.failed.Load() {
		return resp, err // the client's doing
	}
	u.account.errors.Add(1)
	if isDialError(err) {
		u.target.CheckSoon()
	}
	return resp, err
}

// isDialError reports whether no connection came about.
func isDialError(err error) bool {
	var dial reverseproxy.DialError
	return errors.As(err, &dial) || healthcheck.IsTLS(err)
}

// clientBody notes that the client broke off its request body.
type clientBody struct {
	io.ReadCloser
	failed atomic.Bool
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.Store(true)
	}
	return n, err
}

// ProxyProtocolEnabled implements reverseproxy.ProxyProtocolTransport for
// transports that do.
func (o *observer) ProxyProtocolEnabled() bool {
	inner, ok := o.RoundTripper.(reverseproxy.ProxyProtocolTransport)
	return ok && inner.ProxyProtocolEnabled()
}

// RequiresContentLength implements
// reverseproxy.ContentLengthRequiredTransport for transports that do.
func (o *observer) RequiresContentLength() bool {
	inner, ok := o.RoundTripper.(reverseproxy.ContentLengthRequiredTransport)
	return ok && inner.RequiresContentLength()
}

// Interface guards
var (
	_ http.RoundTripper                           = (*observer)(nil)
	_ reverseproxy.ProxyProtocolTransport         = (*observer)(nil)
	_ reverseproxy.ContentLengthRequiredTransport = (*observer)(nil)
)
