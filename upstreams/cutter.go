package upstreams

import (
	"context"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// cutter ends the context of an attempt. It is used again, with all that it
// has allocated, unless it has ended one.
type cutter struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// parent is the context that it follows, by a call of follow.
	parent context.Context
	follow func()
	uses   int
}

// maxUses limits what a transport that forgets to end the contexts that it
// derives can pile up.
const maxUses = 1000

var cutters = sync.Pool{New: func() any {
	c := new(cutter)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.follow = func() { c.cancel(context.Cause(c.parent)) }
	return c
}}

func (p *Pool) newCutter() *cutter { return cutters.Get().(*cutter) }

// freeCutter takes a cutter back; unused says that it has ended nothing.
func (p *Pool) freeCutter(c *cutter, unused bool) {
	c.uses++
	if !unused || !p.tidy || c.uses > maxUses {
		c.cancel(context.Canceled)
		return
	}
	c.parent = nil
	cutters.Put(c)
}

// tidy reports whether nothing is left that hangs on the contexts of attempts
// once a request is over: whether the transport ends what it derives from them,
// and no other handlers see them.
func tidy(cfg *PoolConfig) bool {
	_, stock := cfg.Transport.(*reverseproxy.HTTPTransport)
	return stock && !cfg.Handled
}
