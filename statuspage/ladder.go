package statuspage

import (
	"fmt"
	"strings"
)

// Small drawings of a row, as paths of vertical strokes.

// rungs is how many rungs a drawn ladder has at most.
const rungs = 10

// ladder is how far an upstream has climbed: each rung is a failed check, and
// a longer wait for the next one; above the last one it is retired.
type ladder struct {
	// Climbed and Left are the rungs, Wide the width of them all.
	Climbed, Left string
	Wide          int
}

// Ladder returns the ladder of a row, or nil if it has none to climb.
func (r row) Ladder() *ladder {
	if r.Failures == 0 || r.Most == 0 || !r.Checked {
		return nil
	}
	n := min(r.Most, rungs)
	climbed := min((r.Failures*n+r.Most-1)/r.Most, n)
	var below, above strings.Builder
	for i := range n {
		rung := &below
		if i >= climbed {
			rung = &above
		}
		fmt.Fprintf(rung, "M%d 16V%d", 2+i*5, 13-i*12/n)
	}
	return &ladder{below.String(), above.String(), 5 * n}
}

// Passed, Failed and Ignored return the strokes of the row's history, the
// newest result at the right.
func (r row) Passed() string  { return r.strokes('p', 4) }
func (r row) Failed() string  { return r.strokes('f', 12) }
func (r row) Ignored() string { return r.strokes('x', 12) }

// historyPlaces is how many results a drawn history has room for.
const historyPlaces = 20

func (r row) strokes(kind byte, high int) string {
	var path strings.Builder
	first := historyPlaces - len(r.History)
	for i := range len(r.History) {
		if r.History[i] == kind {
			fmt.Fprintf(&path, "M%d 14v-%d", 2+(first+i)*4, high)
		}
	}
	return path.String()
}

// HistoryInWords says it to those who see no drawing.
func (r row) HistoryInWords() string {
	n := len(r.History)
	passed := strings.Count(r.History, "p")
	return fmt.Sprintf("%d of the last %s passed", passed, plural(n, "check"))
}
