package upstreams

import (
	"sync"
	"time"
)

// failures counts failed requests within a sliding window. However many there
// are, it keeps no more than maxMarks marks: failures closer together than
// that share one, and are forgotten together.
type failures struct {
	mu    sync.Mutex
	marks []mark // oldest first
	count int
}

// mark stands for failures at about the same time.
type mark struct {
	at    time.Time
	count int
}

const maxMarks = 256

// add counts a failure, and returns how many there were within the window.
func (f *failures) add(now time.Time, window time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := 0
	for old < len(f.marks) && now.Sub(f.marks[old].at) > window {
		f.count -= f.marks[old].count
		old++
	}
	f.marks = f.marks[:copy(f.marks, f.marks[old:])]
	f.count++
	if last := len(f.marks) - 1; last >= 0 && now.Sub(f.marks[last].at) < window/maxMarks {
		f.marks[last].count++
	} else {
		f.marks = append(f.marks, mark{now, 1})
	}
	return f.count
}

// forget forgets all.
func (f *failures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks, f.count = f.marks[:0], 0
}
