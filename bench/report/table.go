package report

import (
	"math"
	"slices"
	"strings"
)

// lostMark stands in cells of this load balancer that are worse than the best
// of the others.
const lostMark = " ▼"

// order says which of two figures is better.
type order int

const (
	lowerIsBetter order = iota
	higherIsBetter
	neitherIsBetter
)

// table compares peers, row by row.
type table struct {
	head  string // of the first column
	peers []string
	rows  []row
}

// row is what was measured in one place. Its figures are in the order of the
// peers.
type row struct {
	name    string
	figures []spread
}

// ours reports whether a peer is this load balancer.
func ours(peer string) bool { return strings.HasPrefix(peer, "load_balance") }

// best is the figure of the others with the best median, and whose it is, ""
// if there is none.
func (t table) best(r row, better order) (best spread, who string) {
	for i, f := range r.figures {
		if ours(t.peers[i]) || f.none() {
			continue
		}
		if who == "" || beats(f.mid, best.mid, better) {
			best, who = f, t.peers[i]
		}
	}
	return best, who
}

// beats reports whether a is better than b.
func beats(a, b float64, better order) bool {
	return better == lowerIsBetter && a < b || better == higherIsBetter && a > b
}

// loss is a figure of ours that is worse than the best of the others.
type loss struct {
	row, peer    string
	figure, best spread
	by           string
	// clear says that every repetition was worse than any of the best.
	clear bool
}

// losses are all of the table. Figures that differ by less than the tolerance,
// a part of the better one, count as equal.
func (t table) losses(better order, tolerance float64) []loss {
	var all []loss
	for _, r := range t.rows {
		best, who := t.best(r, better)
		for i, f := range r.figures {
			if !ours(t.peers[i]) || f.none() || who == "" {
				continue
			}
			if beats(best.mid, f.mid, better) && !(math.Abs(f.mid-best.mid) <= tolerance*math.Abs(best.mid)) {
				clear := better == lowerIsBetter && best.high < f.low || better == higherIsBetter && best.low > f.high
				all = append(all, loss{r.name, t.peers[i], f, best, who, clear})
			}
		}
	}
	return all
}

// markdown is the table, with the losses marked.
func (t table) markdown(losses []loss) string {
	lines := [][]string{append([]string{t.head}, t.peers...)}
	for _, r := range t.rows {
		cells := []string{r.name}
		for i, f := range r.figures {
			cell := f.String()
			if slices.ContainsFunc(losses, func(l loss) bool { return l.row == r.name && l.peer == t.peers[i] }) {
				cell += lostMark
			}
			cells = append(cells, cell)
		}
		lines = append(lines, cells)
	}
	return markdown(lines)
}

// markdown is a table whose first line is its head and whose first column has
// names.
func markdown(lines [][]string) string {
	var out strings.Builder
	for i, cells := range lines {
		out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			out.WriteString("|---" + strings.Repeat("|--:", len(cells)-1) + "|\n")
		}
	}
	return out.String()
}

// distinct returns what there is in a list, each once, in order.
func distinct[E any, T comparable](list []E, of func(E) T) []T {
	var all []T
	for _, e := range list {
		if v := of(e); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
