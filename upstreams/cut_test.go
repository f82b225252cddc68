package upstreams

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// What hangs on the context of an attempt ends with the request.
func TestContextsOfAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.start()
		synctest.Wait()
		a := l.begin(t.Context())
		l.set(true, "b:1")
		for range 2 {
			_, _ = a.try()
		}
		if n := len(l.seen); n != 2 {
			t.Fatalf("%d attempts", n)
		}
		if l.seen[1].Err() != nil {
			t.Error("the second attempt's ended before the request")
		}
		a.record.End()
		for i, ctx := range l.seen {
			if ctx.Err() == nil {
				t.Errorf("that of attempt %d is still there", i+1)
			}
		}
	})
}

// A transport may be asked to cancel a request that it has not heard of yet.
func TestCutBeforeTheTransportKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			<-over
			return nil, net.ErrClosed
		}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		var c cutter
		c.prepare(transport, req)
		var phase atomic.Int32
		phase.Store(cut)
		c.loose(&phase)
		begin := time.Now()
		if _, err := transport.RoundTrip(req); err == nil {
			t.Error("answered")
		}
		if took := time.Since(begin); took != cutAgain {
			t.Errorf("cut after %s", took)
		}
		phase.Store(hidden)
	})
}

// Only transports that use nothing but HTTP/1 can cancel every request.
func TestPlain(t *testing.T) {
	behind := new(http.Transport)
	for _, tc := range []struct {
		name      string
		transport http.RoundTripper
		want      bool
	}{
		{"default", &reverseproxy.HTTPTransport{Transport: behind, Versions: []string{"1.1", "2"}}, true},
		{"tls", &reverseproxy.HTTPTransport{Transport: behind, TLS: new(reverseproxy.TLSConfig)}, false},
		{"h2c", &reverseproxy.HTTPTransport{Transport: behind, Versions: []string{"1.1", "h2c"}}, false},
		{"h3", &reverseproxy.HTTPTransport{Transport: behind, Versions: []string{"3"}}, false},
		{"proxy", &reverseproxy.HTTPTransport{Transport: behind, NetworkProxyRaw: json.RawMessage(`{}`)}, false},
		{"other", behind, false},
	} {
		if got := plain(tc.transport); got != nil != tc.want {
			t.Errorf("%s: %t", tc.name, got != nil)
		}
	}
}
