package upstreams

import "sync"

// bell wakes all that wait for a change.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// listen returns a channel that is closed at the next ring.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
