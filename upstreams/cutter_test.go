package upstreams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Handlers of responses rely on the server, which ends the context of a
// request when it is over: what they derive from it ends then, too.
func TestContextsOfOtherHandlersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.Handled = true })
		l.start()
		synctest.Wait()
		l.pool.tidy = tidy(&PoolConfig{Transport: new(reverseproxy.HTTPTransport), Handled: true})
		ctx, over := context.WithCancel(t.Context())
		r := l.pool.Begin(ctx)
		if _, err := (&attempt{l.pool, l.request(t).req.WithContext(r), r}).try(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		context.AfterFunc(r, func() { close(ended) })
		r.End()
		over()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("still there")
		}
	})
}
