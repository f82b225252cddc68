package upstreams

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

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
	r := o.pool.request(req.Context())
	r.attempts++
	u := o.pool.places.Load().book[info.Upstream]
	if u == nil { // not possible: Select returns no other
		return o.RoundTripper.RoundTrip(req)
	}
	r.path = append(r.path, u)
	u.account.requests.Add(1)
	if r.attempts > 1 {
		u.account.retries.Add(1)
	}

	var body *clientBody
	if req.Body != nil && req.Body != http.NoBody {
		body = &clientBody{ReadCloser: req.Body}
	}
	exposed := r.onTrial != u && o.pool.rescuable(r, req)
	if body != nil {
		req.Body = body // req is this attempt's own
	}
	r.late = false
	if o.pool.ejects {
		r.ejections = u.target.Ejections()
	}
	first := u.silence.wait()
	if first || o.pool.timed {
		r.start = o.pool.now()
	}
	if first {
		u.silence.begin(r.start)
	}
	if o.pool.closed.Load() { // a request that a reload has left behind
		u.target.Stay()
	}
	o.pool.watch()
	returned := false
	defer func() {
		if !returned { // the transport panicked: nobody waits any more
			r.conceal()
			u.silence.done(false, o.pool.now())
		}
	}()
	if exposed {
		r.expose(u, req)
	}
	resp, err := o.RoundTripper.RoundTrip(req)
	returned = true
	end := o.pool.now()
	rescued := r.conceal()
	u.silence.done(err == nil, end)

	switch {
	case err == nil && !rescued:
		o.answered(r, u, resp, end-r.start, o.pool.began.Add(end))
		return resp, nil
	case r.Context.Err() != nil || body != nil && body.failed.Load():
		u.account.ended(Canceled)
		r.freeTrial() // the client's doing
		return resp, err
	case rescued:
		if resp != nil {
			_ = resp.Body.Close()
		}
		u.account.ended(Rescued)
		return nil, errRescued
	}
	o.failed(r, u, err, o.pool.began.Add(end))
	return resp, err
}

// answered books a response.
func (o *observer) answered(r *Request, u *upstream, resp *http.Response, took time.Duration, now time.Time) {
	p := o.pool
	if p.breaker != nil {
		p.breaker.RecordMetric(resp.StatusCode, took)
	}
	if resp.StatusCode < http.StatusInternalServerError {
		u.account.ended(Success)
		u.target.Answered(now)
	} else {
		u.account.ended(ErrorStatus)
	}
	if !p.ejects {
		r.decide(u, true, "") // of an ejection from before a reload
		return
	}
	wrong := p.judged(resp, took)
	r.decide(u, wrong == "", wrong)
	if wrong != "" {
		u.target.Failed(now)
		if !r.late {
			p.failed(r, u, wrong, now)
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // whose body is a connection
		u.proven(r)
	} else {
		r.answer = answer{ReadCloser: resp.Body, request: r, upstream: u, good: wrong == ""}
		resp.Body = &r.answer // the one before is closed
	}
}

// failed books an attempt that got no response.
func (o *observer) failed(r *Request, u *upstream, err error, now time.Time) {
	if isIdleClose(err) {
		r.freeTrial()
		return
	}
	u.account.ended(Failed)
	u.target.Failed(now)
	if isDialError(err) {
		u.target.CheckSoon()
	}
	reason := healthcheck.Reason(err)
	r.decide(u, false, reason)
	if !r.late {
		o.pool.failed(r, u, reason, now)
	}
}

// isDialError reports whether no connection came about.
func isDialError(err error) bool {
	var dial reverseproxy.DialError
	return errors.As(err, &dial) || healthcheck.IsTLS(err)
}

// clientBody notes that the client broke off its request body. What reading
// it comes to after the transport has closed it, as after a failure of the
// upstream, is not the client's doing: every server has an error of its own
// for that.
type clientBody struct {
	io.ReadCloser
	failed, closed atomic.Bool
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

func (b *clientBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
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
