package upstreams

import (
	"context"
	"time"

	"go.uber.org/zap"
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
func (p *Pool) await(ctx context.Context, a *attempts) *rotation {
	if len(p.places.Load().list) == 0 {
		return nil
	}
	if a.gaveUp && !p.cfg.Persistent {
		return p.fallback()
	}
	if p.rotation.Load().pending {
		if rot := p.awaitFirst(ctx, a); rot != nil {
			return rot
		}
	}
	if !p.rotation.Load().pending {
		if rot := p.awaitAsked(ctx); rot != nil {
			return rot
		}
	}
	a.gaveUp = true
	return p.fallback()
}

// fallback returns what is left to a request when nothing is in rotation.
func (p *Pool) fallback() *rotation {
	if p.cfg.WhenAllDown != TryAll {
		return nil
	}
	if !p.episode.Swap(true) {
		p.cfg.Logger.Warn("no upstream is in rotation: trying all of them", zap.String("pool", p.Name()))
	}
	return p.places.Load().all
}

// awaitFirst waits for first results.
func (p *Pool) awaitFirst(ctx context.Context, a *attempts) *rotation {
	if p.waiting.Add(1) > maxWaiting {
		p.waiting.Add(-1)
		return nil
	}
	defer p.waiting.Add(-1)
	if a.startBy.IsZero() {
		a.startBy = time.Now().Add(p.cfg.StartWait)
	}
	return p.wait(ctx, time.Until(a.startBy), func(rot *rotation) bool { return rot.pending })
}

// awaitAsked asks for checks and waits for their results.
func (p *Pool) awaitAsked(ctx context.Context) *rotation {
	return p.wait(ctx, askWait, func(*rotation) bool { return p.group.Ask() })
}

// wait waits until something is in rotation, for at most the given time and
// while more says that there is something to wait for. It ends with the
// request and with the config.
func (p *Pool) wait(ctx context.Context, most time.Duration, more func(*rotation) bool) *rotation {
	if most <= 0 {
		return nil
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		changed := p.changed.listen()
		rot := p.rotation.Load()
		if len(rot.pool) > 0 {
			return rot
		}
		if !more(rot) {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-p.cfg.Context.Done():
			return nil
		}
	}
}
