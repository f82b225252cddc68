package upstreams

import (
	"sync"
	"time"
)

// alarm calls something at a time that may be moved, until it is closed. The
// zero value is an alarm that is not set.
type alarm struct {
	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// set has f called after wait, instead of at the time set before.
func (a *alarm) set(wait time.Duration, f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
	case a.timer == nil:
		a.timer = time.AfterFunc(wait, f)
	default:
		a.timer.Reset(wait)
	}
}

func (a *alarm) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
