package upstreams

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

const (
	// askWait is how long a request waits for the checks that it asked for.
	askWait = 100 * time.Millisecond
	// maxWaiting is how many requests of a pool may wait for first results.
	maxWaiting = 1000
)

// await returns a rotation for a request that found nothing in rotation, or
// nil if there is none. While there are upstreams without a first result it
// waits for one, for at most start_wait over all attempts of the request;
// else it asks for checks and waits for them shortly. If that brings nothing
// it does as when_all_down says.
func (p *Pool) await(r *Request) *rotation {
	if r.list == nil && len(p.places.Load().list) == 0 || r.list != nil && len(r.list) == 0 {
		return nil
	}
	if r.list != nil && p.cfg.SourceDepends {
		p.group.Restore(targets(r.list))
		if rot := p.current(r); len(rot.ups) > 0 {
			return rot
		}
	}
	if r.gaveUp && !p.cfg.Persistent {
		return p.fallback(r)
	}
	if p.current(r).pending {
		if rot := p.awaitFirst(r); rot != nil {
			return rot
		}
	}
	if !p.current(r).pending {
		if rot := p.awaitAsked(r); rot != nil {
			return rot
		}
	}
	r.gaveUp = true
	return p.fallback(r)
}

// fallback returns what is left to a request when nothing is in rotation.
func (p *Pool) fallback(r *Request) *rotation {
	if p.cfg.WhenAllDown != TryAll {
		return nil
	}
	if !p.episode.Swap(true) {
		p.cfg.Logger.Warn("no upstream is in rotation: trying all of them", zap.String("pool", p.Name()))
	}
	places := p.places.Load()
	list := places.list
	if r.list != nil {
		list = evenly(r.list)
	}
	if !slices.ContainsFunc(list, inMaint) {
		if r.list == nil {
			return places.all
		}
		return wholeRotation(list)
	}
	rot := wholeRotation(slices.DeleteFunc(slices.Clone(list), inMaint))
	if len(rot.ups) == 0 {
		return nil
	}
	return rot
}

func inMaint(at place) bool { return at.target.Mode() == healthcheck.Maint }

// awaitFirst waits for first results.
func (p *Pool) awaitFirst(r *Request) *rotation {
	if p.waiting.Add(1) > maxWaiting {
		p.waiting.Add(-1)
		return nil
	}
	defer p.waiting.Add(-1)
	if r.startBy == 0 {
		r.startBy = p.now() + p.cfg.StartWait
	}
	return p.wait(r, r.startBy-p.now(), serving, func(rot *rotation) bool { return rot.pending })
}

// awaitAsked asks for checks and waits for their results, and for the rotation
// to follow if one has come back already.
func (p *Pool) awaitAsked(r *Request) *rotation {
	var of []*healthcheck.Target // all
	if r.list != nil {
		of = targets(r.list)
	}
	return p.awaitChecks(r, p.choices(r), of, serving)
}

// awaitOther asks for checks of the upstreams that the request has not tried,
// all of which are out of rotation, and waits for them: for a request that has
// tried all in rotation, nothing is in rotation.
func (p *Pool) awaitOther(r *Request) *rotation {
	others := slices.DeleteFunc(slices.Clone(p.choices(r)), r.hasTried)
	if len(others) == 0 {
		return nil
	}
	return p.awaitChecks(r, others, targets(others), r.hasOther)
}

// awaitChecks asks for checks of those upstreams, whose targets are of, nil for
// all, and waits until the rotation is good enough.
func (p *Pool) awaitChecks(r *Request, list []*upstream, of []*healthcheck.Target, enough func(*rotation) bool) *rotation {
	return p.wait(r, askWait, enough, func(*rotation) bool {
		return p.group.Ask(of) || slices.ContainsFunc(list, inRotation)
	})
}

// choices returns the upstreams that the request may go to.
func (p *Pool) choices(r *Request) []*upstream {
	if r.list != nil {
		return r.list
	}
	return statics(p.places.Load())
}

// hasOther reports whether the request has not tried all of a rotation.
func (r *Request) hasOther(rot *rotation) bool {
	return !rot.exhausted(r) || rot.backup != nil && !rot.backup.exhausted(r)
}

// serving reports whether something is in rotation.
func serving(rot *rotation) bool { return len(rot.ups) > 0 }

func inRotation(u *upstream) bool { return u.target.InRotation() }

// wait waits until the rotation is good enough, for at most the given time and
// while more says that there is something to wait for. It ends with the
// request and with the config.
func (p *Pool) wait(r *Request, most time.Duration, enough, more func(*rotation) bool) *rotation {
	if most <= 0 {
		return nil
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		changed := p.changed.listen()
		rot := p.current(r)
		if enough(rot) {
			return rot
		}
		if !more(rot) {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-r.Context.Done():
			return nil
		case <-p.cfg.Context.Done():
			return nil
		}
	}
}
