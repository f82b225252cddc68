package healthcheck

import (
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// notice is something to tell about a target.
type notice struct {
	group    *Group
	address  string
	report   Report
	from, to Status
	reason   string
	failures int
	delay    time.Duration
	next     time.Time
	extra    bool
	// quiet marks a retirement, the end of one, or a missing result, that
	// repeats.
	quiet bool
	// void marks a check that had no result, doubt one that was not counted
	// because requests are answered.
	void, doubt bool
	// mode is the operator mode from now on, wasMode the one before.
	mode, wasMode Mode
	// ejected and restored mark what requests have to do with, not checks.
	ejected, restored bool
}

// ejected is what logs, events and counts call a target that is.
const ejected = "ejected"

// maxNotices is how many notices may wait. More than that wait only for
// something that hangs, and are dropped.
const maxNotices = 10_000

// notices hands notices on in order, on a goroutine of its own that lives only
// while there is something to tell. So slow logs and event handlers hold up
// neither checks nor requests, nor, as each has its own notices, one another.
type notices struct {
	tell func(*notice)

	mu      sync.Mutex
	queue   []notice
	telling bool
}

func (n *notices) add(what notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == maxNotices {
		return
	}
	n.queue = append(n.queue, what)
	if !n.telling {
		n.telling = true
		go n.work()
	}
}

func (n *notices) work() {
	for {
		n.mu.Lock()
		queue := n.queue
		n.queue = nil
		if len(queue) == 0 {
			n.telling = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		for i := range queue {
			n.tell(&queue[i])
		}
	}
}

// notify logs what, emits it as far as somebody listens, and remembers it if
// it is a transition. The registry's lock is held.
func (r *Registry) notify(what notice) {
	if what.transition() {
		r.journal.add(Change{
			Time: time.Now(), Pool: what.group.name, Address: what.address,
			From: what.before(), To: what.after(), Reason: what.reason,
		})
	}
	if what.worth() {
		r.logs.add(what)
	}
	if len(what.events()) > 0 && what.group.cfg.Emit != nil {
		r.events.add(what)
	}
}

// worth reports whether it is to be logged at all.
func (n *notice) worth() bool {
	special := n.void || n.doubt || n.ejected || n.restored || n.mode != n.wasMode
	return special && !n.quiet || n.from != n.to || n.group.cfg.Logger.Core().Enabled(zapcore.DebugLevel)
}

// log writes one line: info, warn or error for a transition, debug for
// repeats.
func (n *notice) log() {
	level, message := n.line()
	c := n.group.cfg.Logger.Check(level, message)
	if c == nil {
		return
	}
	fields := []zap.Field{
		zap.String("pool", n.group.name),
		zap.String("upstream", n.address),
		zap.String("from", n.before()),
		zap.String("to", n.after()),
	}
	if !n.ejected && !n.restored && n.mode == n.wasMode { // it counts failed checks
		fields = append(fields, zap.Int("failures", n.failures))
	}
	if n.reason != "" {
		fields = append(fields, zap.String("reason", n.reason))
	}
	if !n.report.Time.IsZero() {
		fields = append(fields, zap.Duration("duration", n.report.Duration))
	}
	if n.report.StatusCode != 0 {
		fields = append(fields, zap.Int("status_code", n.report.StatusCode))
	}
	if n.report.Detail != "" {
		fields = append(fields, zap.String("error", n.report.Detail))
	}
	switch {
	case n.to == Retired && n.next.IsZero():
		fields = append(fields, zap.String("readmitted", "by an operator"))
	case n.to == Retired:
		fields = append(fields, zap.Time("readmitted", n.next))
	case n.mode != n.wasMode && !n.next.IsZero():
		fields = append(fields, zap.Time("ends", n.next))
	case n.mode != n.wasMode:
	case n.ejected:
		fields = append(fields, zap.Duration("hold", n.delay), zap.Time("ejected_until", n.next))
	case !n.next.IsZero():
		fields = append(fields, zap.Duration("delay", n.delay), zap.Time("next_check", n.next))
	}
	if n.extra {
		fields = append(fields, zap.Bool("extra", true))
	}
	c.Write(fields...)
}

// before and after return the statuses, or "ejected" where that makes the
// difference.
func (n *notice) before() string {
	switch {
	case n.mode != n.wasMode:
		return n.wasMode.String()
	case n.restored:
		return ejected
	}
	return n.from.String()
}

func (n *notice) after() string {
	switch {
	case n.mode != n.wasMode:
		return n.mode.String()
	case n.ejected:
		return ejected
	}
	return n.to.String()
}

// line returns the level and the message.
func (n *notice) line() (zapcore.Level, string) {
	switch {
	case n.void && n.quiet:
		return zapcore.DebugLevel, "check had no result again"
	case n.void:
		return zapcore.WarnLevel, "check had no result"
	case n.doubt && n.quiet:
		return zapcore.DebugLevel, "check timed out again, but requests are answered: not counted"
	case n.doubt:
		return zapcore.WarnLevel, "check timed out, but requests are answered: not counted"
	case n.mode != n.wasMode && n.mode == Ready:
		return zapcore.InfoLevel, "upstream is ready for requests, as far as the operator goes"
	case n.mode != n.wasMode && n.mode == Drain:
		return zapcore.InfoLevel, "upstream is drained by the operator: no new requests"
	case n.mode != n.wasMode:
		return zapcore.InfoLevel, "upstream is in maintenance: no requests, no checks"
	case n.ejected && n.quiet:
		return zapcore.DebugLevel, "upstream is ejected again"
	case n.ejected:
		return zapcore.WarnLevel, "upstream is ejected: its requests failed"
	case n.restored:
		return zapcore.InfoLevel, "upstream is back in rotation"
	case n.from == n.to && n.report.OK:
		return zapcore.DebugLevel, "check passed"
	case n.from == n.to:
		return zapcore.DebugLevel, "check failed"
	case n.to == Up:
		return zapcore.InfoLevel, "upstream is up"
	case n.to == Retired && n.quiet:
		return zapcore.DebugLevel, "upstream is retired again"
	case n.to == Retired:
		return zapcore.ErrorLevel, "upstream is retired: no more checks, no more requests"
	case n.from == Retired && n.quiet:
		return zapcore.DebugLevel, "upstream is readmitted again"
	case n.from == Retired:
		return zapcore.InfoLevel, "upstream is readmitted"
	}
	return zapcore.WarnLevel, "upstream is down"
}

// emit emits the events of a transition. A handler of them that panics is
// logged: it must not take the server down.
func (n *notice) emit() {
	defer func() {
		if broken := recover(); broken != nil {
			n.group.cfg.Logger.Error("event handler panicked", zap.Any("error", broken), zap.ByteString("stack", debug.Stack()))
		}
	}()
	for _, event := range n.events() {
		n.group.cfg.Emit(event, map[string]any{
			"pool":     n.group.name,
			"host":     n.address,
			"from":     n.before(),
			"to":       n.after(),
			"reason":   n.reason,
			"failures": n.failures,
		})
	}
}

// events returns the names of the events to emit.
func (n *notice) events() []string {
	switch {
	case n.void || n.quiet:
		return nil
	case n.ejected:
		return []string{"ejected"}
	case n.restored:
		return []string{"restored"}
	case n.from == n.to:
		return nil
	case n.to == Up:
		return []string{"healthy"}
	case n.to == Retired && n.from != Down: // down in passing
		return []string{"unhealthy", "retired"}
	case n.to == Retired:
		return []string{"retired"}
	case n.from == Retired:
		return []string{"readmitted"}
	}
	return []string{"unhealthy"}
}
