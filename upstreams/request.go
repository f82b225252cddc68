package upstreams

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Request is what one request has tried so far in one pool, and the context
// of its attempts: the request's own, but that a rescue can end it for one
// attempt. But for what rescues look at it belongs to the request's goroutine.
type Request struct {
	// Context is the request's own.
	context.Context
	pool *Pool

	// path are the upstreams of the attempts, of which those from round on
	// are this round of retries.
	path  []*upstream
	round int
	room  [4]*upstream
	// successor is the record of a pool that has the request after this one.
	successor *Request
	// attempts counts the attempts, idle the rounds without one.
	attempts, idle int
	// began is when the request came, if time limits its retries.
	began time.Time
	// startBy ends the request's waiting for first results.
	startBy time.Time
	// gaveUp says that nothing was in rotation.
	gaveUp bool
	// list is what the dynamic source returned for this request, nil if the
	// static upstreams serve.
	list []*upstream
	// onTrial is the upstream of which the request is the trial, trial the
	// ejection that it decides on.
	onTrial *upstream
	trial   uint64

	// answer is the response body of the latest attempt.
	answer answer

	// rescued says that an attempt was cut loose, which happens once.
	rescued bool
	// at is the upstream that an exposed attempt waits for, in slot.
	at    *upstream
	slot  *atomic.Pointer[Request]
	phase atomic.Int32
	// cutter ends the context of attempts. unlink takes it off the request's
	// own context.
	cutter atomic.Pointer[cutter]
	unlink func() bool
}

// The phases of an attempt. Whoever looks at a waiting one holds it in
// judging, for a moment.
const (
	hidden int32 = iota
	waiting
	judging
	cut
)

// Begin starts the record of a request. The handler calls it once a request,
// before the first attempt, whose contexts are to descend from the record,
// and End after the last one.
func (p *Pool) Begin(ctx context.Context) *Request {
	r := &Request{Context: ctx, pool: p}
	r.path = r.room[:0]
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		r.tell(repl)
	}
	if p.cfg.Retry != nil && p.cfg.Retry.TryDuration > 0 {
		r.began = time.Now()
	}
	return r
}

// request returns the record of the request whose attempt has that context.
func (p *Pool) request(ctx context.Context) *Request {
	if r, ok := ctx.Value(p).(*Request); ok {
		return r
	}
	return p.Begin(ctx)
}

// End frees what the request holds. No attempt may go on.
func (r *Request) End() {
	if r.attempts == 0 && r.idle > 0 && r.Context.Err() == nil {
		r.pool.places.Load().ledger.unserved.Add(1)
	}
	r.freeTrial()
	r.dropCutter(true)
}

// Unserved reports whether the request was given up because nothing was in
// rotation, without a single attempt.
func (r *Request) Unserved() bool { return r.gaveUp && r.attempts == 0 }

// tried returns the upstreams that this round of retries has tried.
func (r *Request) tried() []*upstream { return r.path[r.round:] }

// hasTried reports whether this round of retries has tried u.
func (r *Request) hasTried(u *upstream) bool { return slices.Contains(r.tried(), u) }

// last returns the upstream of the latest attempt, nil if there was none.
func (r *Request) last() *upstream {
	if len(r.path) == 0 {
		return nil
	}
	return r.path[len(r.path)-1]
}

// maxPath is how much of the path of earlier rounds is remembered.
const maxPath = 32

// startRound starts another round of retries, in which but the last upstream
// nothing has been tried.
func (r *Request) startRound() {
	r.round = len(r.path) - 1
	if most := r.round - maxPath; most > 0 {
		r.path = r.path[:copy(r.path, r.path[most:])]
		r.round = maxPath
	}
}

// Value implements context.Context. A pool is the key of its record.
func (r *Request) Value(key any) any {
	if p, ok := key.(*Pool); ok && p == r.pool {
		return r
	}
	if c := r.cutter.Load(); c != nil {
		if v := c.ctx.Value(key); v != nil { // what makes it a parent for package context
			return v
		}
	}
	return r.Context.Value(key)
}

// Done implements context.Context.
func (r *Request) Done() <-chan struct{} {
	if c := r.cutter.Load(); c != nil {
		return c.ctx.Done()
	}
	return r.Context.Done()
}

// Err implements context.Context.
func (r *Request) Err() error {
	if c := r.cutter.Load(); c != nil && c.ctx.Err() == nil {
		return nil
	}
	if err := r.Context.Err(); err != nil {
		return err
	}
	if c := r.cutter.Load(); c != nil {
		return c.ctx.Err()
	}
	return nil
}

// expose lets rescues cut the attempt loose that is about to begin at u.
func (r *Request) expose(u *upstream) {
	if r.cutter.Load() == nil {
		c := r.pool.newCutter()
		c.parent = r.Context
		r.unlink = context.AfterFunc(r.Context, c.follow)
		r.cutter.Store(c)
	}
	r.at = u
	r.phase.Store(waiting)
	r.slot = u.waiters.add(r)
	if u.lost.Load() { // before it could be found
		r.rescue(u)
	}
}

// conceal ends what expose began, and reports whether the attempt was cut
// loose.
func (r *Request) conceal() bool {
	if r.slot == nil {
		return false
	}
	r.slot.Store(nil)
	r.slot = nil
	for !r.phase.CompareAndSwap(waiting, hidden) {
		if r.phase.Load() == cut {
			r.phase.Store(hidden)
			r.rescued = true
			r.dropCutter(false)
			return true
		}
		runtime.Gosched() // somebody is looking at it
	}
	return false
}

// rescue cuts the attempt loose if it waits for u and the request has another
// one to go to. Any goroutine may call it.
func (r *Request) rescue(u *upstream) {
	if !r.phase.CompareAndSwap(waiting, judging) {
		return
	}
	if r.at != u || !r.pool.another(r) {
		r.phase.Store(waiting)
		return
	}
	c := r.cutter.Load()
	r.phase.Store(cut)
	c.cancel(errRescued)
}

// dropCutter takes the cutter off the request.
func (r *Request) dropCutter(unused bool) {
	c := r.cutter.Load()
	if c == nil {
		return
	}
	r.cutter.Store(nil)
	unused = r.unlink() && unused
	r.unlink = nil
	r.pool.freeCutter(c, unused)
}
