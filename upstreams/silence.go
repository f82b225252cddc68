package upstreams

import (
	"sync/atomic"
	"time"
)

// When requests wait for an upstream and it answers none, it is checked.
const (
	// silenceAfter is how long it may be silent.
	silenceAfter = time.Second
	// silenceLook is how often it is looked at, unless latency needs it more
	// often.
	silenceLook = time.Second
	// silenceGap is the least time between two such checks.
	silenceGap = 2 * time.Second
)

// silence is how long an upstream has been silent. Times count from the
// pool's beginning.
type silence struct {
	// waiting counts the attempts that wait for response headers.
	waiting atomic.Int64
	// heard is when the last headers came, or when there was nobody waiting
	// for any last.
	heard atomic.Int64
	// asked is when a check was asked for last. Only look uses it.
	asked time.Duration
}

// wait notes that an attempt begins to wait, and reports whether nobody else
// does. Only then has begin to be called: it takes time to learn the time.
func (s *silence) wait() (first bool) { return s.waiting.Add(1) == 1 }

// begin notes that the first one began to wait at now.
func (s *silence) begin(now time.Duration) { s.heard.Store(int64(now)) }

// done notes that an attempt waits no more, be it that headers came or not.
func (s *silence) done(heard bool, now time.Duration) {
	if heard {
		s.heard.Store(int64(now))
	}
	s.waiting.Add(-1)
}

// length returns how long attempts have waited and no headers have come.
func (s *silence) length(now time.Duration) time.Duration { return now - time.Duration(s.heard.Load()) }

// suspicious reports whether a check is due.
func (s *silence) suspicious(now time.Duration) bool {
	if s.length(now) < silenceAfter || s.asked > 0 && now-s.asked < silenceGap {
		return false
	}
	s.asked = now
	return true
}

// watch sees to it that look runs while attempts wait.
func (p *Pool) watch() {
	if !p.watching.Load() && p.watching.CompareAndSwap(false, true) {
		time.AfterFunc(p.lookAfter(), p.look)
	}
}

// look asks for checks of upstreams that are silent, or still down after all
// were, rescues from those that are lost, and counts the attempts that wait for
// too long. There is one timer for it, whatever the number of requests.
func (p *Pool) look() {
	p.catchUp()
	p.group.AskDown()
	now := p.now()
	if p.anyWaiting(func(u *upstream) {
		if u.silence.suspicious(now) {
			u.target.CheckSilent()
		}
		u.target.Unanswered(u.silence.length(now))
		if u.lost.Load() && !u.target.InRotation() && u.silence.length(now) >= silenceAfter {
			u.rescue()
		}
		p.lookAtWaiters(u, now)
	}) {
		time.AfterFunc(p.lookAfter(), p.look)
		return
	}
	p.watching.Store(false)
	if p.anyWaiting(func(*upstream) {}) { // who may have come before that
		p.watch()
	}
}

// anyWaiting calls f for every upstream that attempts wait for.
func (p *Pool) anyWaiting(f func(*upstream)) bool {
	any := false
	for _, u := range p.places.Load().byAddress {
		if u.silence.waiting.Load() > 0 {
			any = true
			f(u)
		}
	}
	return any
}
