package upstreams

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// cutter ends an attempt. Where requests travel by HTTP/1 without TLS it asks
// the transport to cancel the request, for the transport keeps a list of its
// requests anyway; a context for each attempt would be more costly than all
// else that a pool does. Elsewhere it is a context.
type cutter struct {
	// transport cancels req.
	transport *http.Transport
	req       *http.Request
	// cancel ends the attempt's context.
	cancel context.CancelCauseFunc
}

// prepare makes req, which is the attempt's own, one that can be cut. plain
// is the transport, if it can cancel requests.
func (c *cutter) prepare(plain *http.Transport, req *http.Request) {
	if plain != nil {
		*c = cutter{transport: plain, req: req}
		return
	}
	c.end()
	ctx, cancel := context.WithCancelCause(req.Context())
	*req = *req.WithContext(ctx)
	*c = cutter{cancel: cancel}
}

// end ends what is left of the attempt.
func (c *cutter) end() {
	if c.cancel != nil {
		c.cancel(context.Canceled)
	}
}

const (
	// cutAgain is after what time a request is cancelled again that is still
	// under way, cutMost the longest such time.
	cutAgain = time.Millisecond
	cutMost  = time.Second
)

// loose cuts the attempt, whose phase is cut until it has ended.
func (c cutter) loose(phase *atomic.Int32) {
	if c.cancel != nil {
		c.cancel(errRescued)
		return
	}
	c.again(phase, cutAgain)
}

// again cancels the request until it has ended: the transport may not have
// put it on its list yet.
func (c cutter) again(phase *atomic.Int32, after time.Duration) {
	c.transport.CancelRequest(c.req) //nolint:staticcheck // a context costs more
	time.AfterFunc(after, func() {
		if phase.Load() == cut {
			c.again(phase, min(2*after, cutMost))
		}
	})
}

// plain returns the transport behind Caddy's if it is sure to use HTTP/1
// without TLS: it can cancel no other requests.
func plain(transport http.RoundTripper) *http.Transport {
	h, ok := transport.(*reverseproxy.HTTPTransport)
	if !ok || h.TLS != nil || len(h.NetworkProxyRaw) > 0 || !cancels() {
		return nil
	}
	if slices.ContainsFunc(h.Versions, func(v string) bool { return v == "h2c" || v == "3" }) {
		return nil
	}
	return h.Transport
}

// cancels reports whether transports cancel requests when they are asked to,
// which Go reserves the right to give up.
var cancels = sync.OnceValue(func() bool {
	dialing, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		close(dialing)
		<-over
		return nil, net.ErrClosed
	}}
	req, err := http.NewRequest(http.MethodGet, "http://localhost", nil)
	if err != nil {
		return false
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := transport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	select {
	case <-dialing:
	case <-ended:
		return false
	}
	transport.CancelRequest(req) //nolint:staticcheck // that is the question
	select {
	case <-ended:
		return true
	case <-time.After(time.Second):
		return false
	}
})
