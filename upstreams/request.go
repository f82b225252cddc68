package upstreams

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// recordVar is the variable of Caddy's that holds the record of the pool that
// has had the request last.
const recordVar = "load_balance.request"

// Request is what one request has tried so far in one pool. But for what
// rescues look at it belongs to the request's goroutine.
type Request struct {
	// Context is the request's own.
	Context context.Context
	pool    *Pool
	// before is the record of the pool that had the request before, if any.
	before *Request

	// path are the upstreams of the attempts, of which those from round on
	// are this round of retries.
	path  []*upstream
	round int
	room  [2]*upstream
	// attempts counts the attempts, idle the rounds without one, as idled says
	// the latest was.
	attempts, idle int
	idled          bool
	// began is when the request came, if time limits its retries, and startBy
	// ends its waiting for first results. Both count from the pool's
	// beginning.
	began, startBy time.Duration
	// list is what the dynamic source returned for this request, nil if the
	// static upstreams serve.
	list []*upstream
	// onTrial is the upstream of which the request is the trial, trial the
	// ejection that it decides on.
	onTrial *upstream
	trial   uint64

	// answer is the response body of the latest attempt.
	answer answer
	// start is when the latest attempt began, if the pool is timed, ejections
	// how many its upstream had had by then.
	start     time.Duration
	ejections uint64

	// at is the upstream that an exposed attempt waits for, in slot, and cut
	// what ends it.
	at    *upstream
	slot  *atomic.Pointer[Request]
	cut   cutter
	phase atomic.Int32
	// late says that the latest attempt has waited for too long, and counts as
	// failed.
	late bool
	// rescued says that an attempt was cut loose, which happens once, gaveUp
	// that nothing was in rotation.
	rescued, gaveUp bool
}

// The phases of an attempt. Whoever looks at a waiting one holds it in
// judging, for a moment.
const (
	hidden int32 = iota
	waiting
	judging
	cut
)

// Begin starts the record of a request, which its attempts find by the
// variables in ctx. The handler calls it once a request, before the first
// attempt, and End after the last one.
func (p *Pool) Begin(ctx context.Context) *Request {
	r := &Request{Context: ctx, pool: p}
	r.path = r.room[:0]
	if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		r.before, _ = vars[recordVar].(*Request)
		vars[recordVar] = r
		if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok && r.before == nil {
			repl.Map(placeholders(vars))
		}
	}
	if p.cfg.Retry != nil && p.cfg.Retry.TryDuration > 0 {
		r.began = p.now()
	}
	return r
}

// request returns the record of the request whose attempt has that context.
func (p *Pool) request(ctx context.Context) *Request {
	r, _ := caddyhttp.GetVar(ctx, recordVar).(*Request)
	for ; r != nil; r = r.before {
		if r.pool == p {
			return r
		}
	}
	return p.Begin(ctx)
}

// now returns the time since the pool's beginning.
func (p *Pool) now() time.Duration { return time.Since(p.began) }

// End frees what the request holds. No attempt may go on.
func (r *Request) End() {
	if r.attempts == 0 && r.idle > 0 && r.Context.Err() == nil {
		r.pool.places.Load().ledger.unserved.Add(1)
	}
	r.freeTrial()
	r.cut.end()
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

// expose lets rescues cut the attempt loose that is about to begin at u, by
// sending req.
func (r *Request) expose(u *upstream, req *http.Request) {
	r.cut.prepare(r.pool.plain, req)
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
			return true
		}
		runtime.Gosched() // somebody is looking at it
	}
	return false
}

// hold holds the attempt in judging, unless it waits no more.
func (r *Request) hold() bool {
	for !r.phase.CompareAndSwap(waiting, judging) {
		if phase := r.phase.Load(); phase == hidden || phase == cut {
			return false
		}
		runtime.Gosched() // somebody else is looking at it
	}
	return true
}

// rescue cuts the attempt loose if it waits for u and the request has another
// one to go to. Any goroutine may call it.
func (r *Request) rescue(u *upstream) {
	if !r.hold() {
		return
	}
	if r.at != u || !r.pool.another(r) {
		r.phase.Store(waiting)
		return
	}
	c := r.cut
	r.phase.Store(cut)
	c.loose(&r.phase)
}
