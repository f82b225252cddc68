package upstreams

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

const (
	// refreshEvery is how often the dynamic source is asked without a
	// request, so that it is not for a request to find out.
	refreshEvery = 5 * time.Second
	// refreshMost is how long it may take to answer.
	refreshMost = 30 * time.Second
	// unseenMost is how long an upstream stays that the source does not
	// return any more.
	unseenMost = 5 * time.Minute
	// maxDynamic is how many upstreams of the source a pool has at most.
	maxDynamic = 10_000
)

// listed is the rotation of a list that the dynamic source returned.
type listed struct {
	list []*upstream
	// of is the rotation of the pool with which it was made: it changes with
	// every change.
	of  *rotation
	rot *rotation
}

// ask asks the dynamic source for the upstreams of this very request. On an
// error the static upstreams serve.
func (p *Pool) ask(r *Request, req *http.Request) {
	if r.attempts+r.idle > 0 { // do not keep what may have failed
		if cache, ok := p.cfg.Source.(reverseproxy.CachingUpstreamSource); ok {
			if err := cache.ResetCache(req); err != nil {
				p.cfg.Logger.Error("resetting the cache of the dynamic source failed", zap.Error(err))
			}
		}
	}
	list, err := p.cfg.Source.GetUpstreams(req)
	if err != nil {
		p.cfg.Logger.Error("getting dynamic upstreams failed: the static upstreams serve", zap.Error(err))
		r.list = nil
		if r.Context.Err() == nil {
			p.serve(statics(p.places.Load()))
		}
		return
	}
	r.list = p.admit(list)
	p.serve(r.list)
}

// statics returns the upstreams of the config.
func statics(places *places) []*upstream {
	list := make([]*upstream, len(places.list))
	for i, at := range places.list {
		list[i] = at.upstream
	}
	return list
}

// serve tells the group which upstreams serve at present, unless that differs
// from request to request.
func (p *Pool) serve(list []*upstream) {
	if last := p.serving.Load(); p.cfg.SourceDepends || last != nil && slices.Equal(*last, list) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving.Store(&list)
	p.group.Serving(targets(list))
}

// targets returns the targets of those upstreams.
func targets(list []*upstream) []*healthcheck.Target {
	all := make([]*healthcheck.Target, len(list))
	for i, u := range list {
		all[i] = u.target
	}
	return all
}

// choice returns the targets among which the request chooses, u among them,
// if each request has its own. Else it returns nil.
func (r *Request) choice(u *upstream) []*healthcheck.Target {
	if !r.pool.cfg.SourceDepends {
		return nil
	}
	return append(targets(r.pool.current(r).eligible()), u.target)
}

// admit returns the pool's upstreams for a list of the dynamic source, which
// become known to the pool if they are not yet.
func (p *Pool) admit(list []*reverseproxy.Upstream) []*upstream {
	if last := p.lately.Load(); last != nil && slices.EqualFunc(list, last.list, isAt) {
		p.see(last.list)
		return last.list
	}
	places := p.places.Load()
	if slices.ContainsFunc(list, func(up *reverseproxy.Upstream) bool { return places.byAddress[up.Dial] == nil }) {
		places = p.enroll(list)
	}
	ups := make([]*upstream, 0, len(list))
	for _, up := range list {
		if u := places.byAddress[up.Dial]; u != nil {
			ups = append(ups, u)
		}
	}
	p.see(ups)
	return ups
}

// isAt reports whether u is what the pool knows by the address of up.
func isAt(up *reverseproxy.Upstream, u *upstream) bool {
	return up.Dial == u.address && !u.gone.Load()
}

// see notes that the source has returned these.
func (p *Pool) see(ups []*upstream) {
	now := int64(p.now())
	for _, u := range ups {
		if now-u.seen.Load() > int64(time.Second) {
			u.seen.Store(now)
		}
	}
}

// among returns the rotation of those upstreams.
func (p *Pool) among(list []*upstream) *rotation {
	of := p.rotation.Load()
	last := p.lately.Load()
	if last != nil && last.of == of && slices.Equal(last.list, list) {
		return last.rot
	}
	made := &listed{list: list, of: of, rot: newRotation(p.ramped(evenly(list)))}
	if len(made.rot.ups) > 0 {
		p.episode.Store(false)
	}
	p.lately.Store(made)
	return made.rot
}

// evenly returns places of equal weight.
func evenly(list []*upstream) []place {
	places := make([]place, len(list))
	for i, u := range list {
		places[i] = place{upstream: u, weight: 1}
	}
	return places
}

// enroll makes the upstreams of a list known to the pool.
func (p *Pool) enroll(list []*reverseproxy.Upstream) *places {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.places.Load()
	if p.closed.Load() {
		return old
	}
	limits := make(map[string]int)
	var targets []healthcheck.TargetConfig
	room := maxDynamic + len(old.list) - len(old.byAddress)
	for _, up := range list {
		if _, twice := limits[up.Dial]; twice || old.byAddress[up.Dial] != nil {
			continue
		}
		if len(targets) >= room {
			if !p.overfull {
				p.overfull = true
				p.cfg.Logger.Warn("the dynamic source returns too many upstreams: the rest is not used",
					zap.String("pool", p.name), zap.Int("most", maxDynamic))
			}
			break
		}
		limits[up.Dial] = up.MaxRequests
		targets = append(targets, p.targetConfig(up.Dial, p.cfg.Uncheckable || p.cfg.SourceDepends || !healthcheck.Checkable(up.Dial)))
	}
	if targets == nil {
		return old
	}
	next := old.clone()
	for _, t := range p.group.Enroll(targets) {
		u := p.newUpstream(p.name, t, limits[t.Address()])
		u.dynamic = true
		next.add(u)
	}
	p.lay(next)
	return next
}

// inherit makes known what the pool of that name in the older config had from
// its dynamic source, so that it need not be checked anew, and when the source
// has returned it last.
func (p *Pool) inherit() {
	for _, older := range Pools() {
		if older == p || older.Name() != p.Name() {
			continue
		}
		var list []*reverseproxy.Upstream
		seen := make(map[string]int64)
		for _, u := range older.places.Load().byAddress {
			if u.dynamic {
				list = append(list, &reverseproxy.Upstream{Dial: u.address, MaxRequests: u.proxy.MaxRequests})
				seen[u.address] = u.seen.Load() - int64(p.began.Sub(older.began))
			}
		}
		if len(list) == 0 {
			continue
		}
		places := p.enroll(list)
		for address, at := range seen {
			if u := places.byAddress[address]; u != nil && u.seen.Load() == 0 { // not seen by p itself
				u.seen.Store(at)
			}
		}
	}
}

// keepAsking asks the dynamic source without a request, again and again, and
// drops what it does not return any more.
func (p *Pool) keepAsking() {
	if p.group.Current() {
		if !p.cfg.SourceDepends {
			p.askUnasked()
		}
		p.dismiss()
	}
	p.refresh.set(refreshEvery, p.keepAsking)
}

// askUnasked asks the dynamic source with a request of our own.
func (p *Pool) askUnasked() {
	defer func() {
		if broken := recover(); broken != nil {
			p.cfg.Logger.Error("dynamic source panicked", zap.Any("error", broken))
		}
	}()
	ctx, cancel := context.WithTimeout(p.cfg.Context, refreshMost)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
	if err != nil { // not possible
		p.cfg.Logger.Error("making a request failed", zap.Error(err))
		return
	}
	req = caddyhttp.PrepareRequest(req, caddy.NewReplacer(), nil, new(caddyhttp.Server))
	list, err := p.cfg.Source.GetUpstreams(req)
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Logger.Debug("getting dynamic upstreams failed", zap.Error(err))
		}
		return
	}
	p.serve(p.admit(list))
}

// dismiss drops upstreams that the source has not returned for long.
func (p *Pool) dismiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	old := p.places.Load()
	now := p.now()
	var gone []*upstream
	for _, u := range old.byAddress {
		if u.dynamic && now-time.Duration(u.seen.Load()) > unseenMost {
			gone = append(gone, u)
		}
	}
	if gone == nil {
		return
	}
	next := old.clone()
	targets := make([]*healthcheck.Target, len(gone))
	for i, u := range gone {
		u.gone.Store(true)
		delete(next.byAddress, u.address)
		delete(next.book, u.proxy)
		targets[i] = u.target
	}
	p.lay(next)
	p.overfull = false
	p.group.Dismiss(targets)
	for _, u := range gone {
		closeAccount(accountKey{p.name, u.address})
	}
}
