package upstreams

import (
	"math/rand/v2"
	"sync/atomic"
)

// waiters are the attempts that wait for the response headers of one upstream
// and may be cut loose. Adding and removing takes no lock and, but for the
// first ones, allocates nothing.
type waiters struct{ first atomic.Pointer[slots] }

// slots is a block of places for waiters. Each block is larger than the one
// before.
type slots struct {
	list []atomic.Pointer[Request]
	next atomic.Pointer[slots]
}

const (
	firstSlots = 8
	moreSlots  = 8 // times as many in the next block
	maxSlots   = 1 << 15
	looks      = 4 // for a free slot in a block
)

// add adds r, and returns the slot in which it is. To remove it, store nil
// there.
func (w *waiters) add(r *Request) *atomic.Pointer[Request] {
	for at, size := &w.first, firstSlots; ; size = min(size*moreSlots, maxSlots) {
		block := at.Load()
		if block == nil {
			block = &slots{list: make([]atomic.Pointer[Request], size)}
			if !at.CompareAndSwap(nil, block) {
				block = at.Load()
			}
		}
		from := rand.IntN(len(block.list))
		for i := range looks {
			slot := &block.list[(from+i)%len(block.list)]
			if slot.Load() == nil && slot.CompareAndSwap(nil, r) {
				return slot
			}
		}
		at = &block.next
	}
}

// each calls f for all that wait. It may see some that have come since, or
// have just gone.
func (w *waiters) each(f func(*Request)) {
	for block := w.first.Load(); block != nil; block = block.next.Load() {
		for i := range block.list {
			if r := block.list[i].Load(); r != nil {
				f(r)
			}
		}
	}
}
