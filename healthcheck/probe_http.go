package healthcheck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Limits on what is read of a body that nobody looks at, only so that the
// connection can be used again.
const (
	drainSize = 64 << 10
	drainTime = 100 * time.Millisecond
)

// keepMost is up to how many upstreams of a pool connections are kept from one
// check to the next. An idle one costs more memory than all else that there is
// about an upstream, and two file descriptors during a reload. With more
// upstreams, every check has a connection of its own, but for those with TLS:
// there a handshake costs more than the memory.
const keepMost = 1000

// maxRedirects is how many redirects of a check are followed, if at all.
const maxRedirects = 10

// newClient returns the client that sends probes. Redirects stay with the
// upstream: its address is in the request's context, and the URL's host, by
// which connections are found again, remains that of the first request.
func newClient(transport http.RoundTripper, follow bool) *http.Client {
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case !follow:
				return http.ErrUseLastResponse
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if req.Host == "" {
				req.Host = req.URL.Host
			}
			req.URL.Host = via[0].URL.Host
			return nil
		},
	}
}

// Serve tells how many upstreams the prober serves.
func (p *Prober) Serve(upstreams int) {
	pool, ok := p.transport.(*reverseproxy.HTTPTransport)
	switch {
	case p.client == nil || !ok || upstreams <= keepMost:
		p.brief.Store(nil)
	case p.brief.Load() == nil:
		once := *pool
		once.Transport = pool.Transport.Clone()
		once.Transport.DisableKeepAlives = true
		p.brief.Store(newClient(&once, p.cfg.FollowRedirects))
	}
}

// sender returns the client that sends the request of a check.
func (p *Prober) sender(req *http.Request) *http.Client {
	if brief := p.brief.Load(); brief != nil && req.URL.Scheme == "http" {
		return brief
	}
	return p.client
}

// askHTTP sends a request and judges the response.
func (p *Prober) askHTTP(ctx context.Context, address string) Report {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	req, err := p.request(ctx, address)
	if err != nil {
		return failed(err)
	}
	resp, err := p.sender(req).Do(req)
	if err != nil {
		var outer *url.Error // repeats the method and the URL
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return failed(err)
	}
	defer resp.Body.Close()
	report := p.judge(ctx, resp)
	report.Duration = time.Since(start)
	report.StatusCode = resp.StatusCode
	defer time.AfterFunc(drainTime, cancel).Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, drainSize)
	return report
}

// request makes the request of a check. It carries nothing of any client.
func (p *Prober) request(ctx context.Context, address string) (*http.Request, error) {
	at, err := p.locate(address)
	if err != nil {
		return nil, err
	}
	method := p.cfg.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if p.cfg.Body != "" {
		body = strings.NewReader(at.repl.ReplaceKnown(p.cfg.Body, ""))
	}
	req, err := http.NewRequestWithContext(ctx, method, "/", body)
	if err != nil {
		return nil, err
	}
	target := p.uri
	target.Scheme, target.Host = p.scheme(at), at.host
	req.URL = &target
	req.Host, req.Header = p.headers(at.repl)
	if req.Host == "" {
		req.Host = at.host
	}

	req = caddyhttp.PrepareRequest(req, at.repl, nil, new(caddyhttp.Server))
	if at.host != at.dial.Address { // a connection of its own for every socket
		req.URL.Host = at.dial.Address
	}
	return req.WithContext(p.withPlace(req.Context(), at)), nil
}

// judge decides whether a response passes the check.
func (p *Prober) judge(ctx context.Context, resp *http.Response) Report {
	switch expect := p.cfg.ExpectStatus; {
	case expect > 0 && !caddyhttp.StatusCodeMatches(resp.StatusCode, expect),
		expect <= 0 && !p.cfg.anyResponse() && (resp.StatusCode < 200 || resp.StatusCode >= 300):
		why := fmt.Sprintf("status %d", resp.StatusCode)
		detail := ""
		if to := resp.Header.Get("Location"); to != "" {
			detail = "redirected to " + to
		}
		return answered(why, detail)
	}
	if p.body == nil {
		return answered("", "")
	}
	var body io.Reader = resp.Body
	if p.cfg.MaxSize > 0 {
		body = io.LimitReader(body, p.cfg.MaxSize)
	}
	watched := &watchedReader{ctx: ctx, Reader: body}
	matched := p.body.MatchReader(bufio.NewReader(watched)) // keeps nothing of what it reads
	switch {
	case watched.err != nil: // which a match may have taken for the end
		return failed(watched.err)
	case matched:
		return answered("", "")
	}
	return answered("body mismatch", "")
}

// watchedReader ends with its context, also while the transport has more to
// give, and remembers the error, other than EOF, that ended it.
type watchedReader struct {
	ctx context.Context
	io.Reader
	err error
}

func (w *watchedReader) Read(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		w.err = context.Cause(w.ctx)
		return 0, w.err
	}
	n, err := w.Reader.Read(b)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}
