package upstreams

import (
	"math/rand/v2"
	"sync/atomic"
)

// waiters are the attempts that wait for the response headers of one upstream
// and may be cut loose. Adding and removing takes no lock and, but for the
// first ones, allocates nothing.
type waiters struct{ newest atomic.Pointer[slots] }

// slots is a block of places for waiters, a power of two of them. Each block is
// larger than the one before, and so mostly empty.
type slots struct {
	list  []atomic.Pointer[Request]
	older *slots
}

const (
	firstSlots = 32 // lest processors share few lines of memory
	moreSlots  = 8  // times as many in the next block
	maxSlots   = 1 << 15
	looks      = 4 // for a free slot in a block
)

// add adds r, and returns the slot in which it is. To remove it, store nil
// there.
func (w *waiters) add(r *Request) *atomic.Pointer[Request] {
	for {
		newest := w.newest.Load()
		for block := newest; block != nil; block = block.older {
			from, mask := rand.Int(), len(block.list)-1
			for i := range looks {
				slot := &block.list[(from+i)&mask]
				if slot.Load() == nil && slot.CompareAndSwap(nil, r) {
					return slot
				}
			}
		}
		size := firstSlots
		if newest != nil {
			size = min(len(newest.list)*moreSlots, maxSlots)
		}
		w.newest.CompareAndSwap(newest, &slots{list: make([]atomic.Pointer[Request], size), older: newest})
	}
}

// each calls f for all that wait. It may see some that have come since, or
// have just gone.
func (w *waiters) each(f func(*Request)) {
	for block := w.newest.Load(); block != nil; block = block.older {
		for i := range block.list {
			if r := block.list[i].Load(); r != nil {
				f(r)
			}
		}
	}
}
