package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

// speedFigure is one kind of figure of a slice.
type speedFigure struct {
	name, means string
	of          func(Slice) float64
	better      order
}

var speedFigures = []speedFigure{
	{"Processor time of a request", "In microseconds of the peer's process, in the kernel too.", func(s Slice) float64 { return s.CPU }, lowerIsBetter},
	{"Requests a second", "Completed with status 200.", func(s Slice) float64 { return s.Rate }, higherIsBetter},
	{"Median latency", "In milliseconds from the request to the end of the response, at that rate.", func(s Slice) float64 { return s.P50 }, lowerIsBetter},
	{"99th percentile of latency", "In milliseconds.", func(s Slice) float64 { return s.P99 }, lowerIsBetter},
}

var busy = speedFigure{"How busy the peer was", "in percent of a core. Well below 100 the load or the backends were the limit, and requests a second and latency are theirs; the processor time of a request is the peer's in any case.", func(s Slice) float64 { return s.Busy }, neitherIsBetter}

// cells are those that were measured, in order.
func (s Speed) cells() []Cell {
	return distinct(s.Slices, func(s Slice) Cell { return s.Cell })
}

// valid reports whether a slice says how fast a peer is: if requests were
// answered, and next to none failed, which would be quick.
func (s Slice) valid() bool { return s.Requests > 0 && s.Errors*100 <= s.Requests }

// values are a figure of a peer in a cell, by rounds.
func (s Speed) values(what speedFigure, cell Cell, peer string) map[int]float64 {
	values := make(map[int]float64)
	for _, slice := range s.Slices {
		if slice.Cell == cell && slice.Peer == peer && slice.valid() {
			values[slice.Round] = what.of(slice)
		}
	}
	return values
}

// table is a kind of figure, cell by cell.
func (s Speed) table(what speedFigure) table {
	t := table{head: "load"}
	for _, p := range s.Peers {
		t.peers = append(t.peers, p.Name)
	}
	for _, cell := range s.cells() {
		r := row{name: cell.String()}
		for _, p := range t.peers {
			r.figures = append(r.figures, spreadOf(slices.Collect(maps.Values(s.values(what, cell, p)))))
		}
		t.rows = append(t.rows, r)
	}
	return t
}

// ratio is the ratio of the medians of a pair, with the spread of the ratios of
// slices of the same round. Rounds that only one of them has do not count.
func (s Speed) ratio(what speedFigure, cell Cell, pair Pair) spread {
	ours, theirs := s.pairs(what, cell, pair)
	result := spreadOf(quotients(ours, theirs))
	if !result.none() {
		result.mid = stats.Median(ours) / stats.Median(theirs)
	}
	return result
}

// pairs are a figure of a pair in a cell, in the rounds that have both.
func (s Speed) pairs(what speedFigure, cell Cell, pair Pair) (ours, theirs []float64) {
	stock := s.values(what, cell, pair.Stock)
	for round, v := range s.values(what, cell, pair.Ours) {
		if of, ok := stock[round]; ok && of > 0 {
			ours, theirs = append(ours, v), append(theirs, of)
		}
	}
	return ours, theirs
}

// quotients are those of equal places.
func quotients(of, by []float64) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = of[i] / by[i]
	}
	return all
}

// overall says what the ratios of a pair are like in all cells together, which
// is less at the mercy of the machine.
func (s Speed) overall(pair Pair) string {
	var parts []string
	count := 0
	for _, what := range speedFigures[:2] {
		var all []float64
		for _, cell := range s.cells() {
			all = append(all, quotients(s.pairs(what, cell, pair))...)
		}
		if count = len(all); count == 0 {
			return ""
		}
		parts = append(parts, fmt.Sprintf("%s %s (half of them from %s to %s)", strings.ToLower(what.name),
			short(stats.Median(all)), short(stats.Percentile(all, 25)), short(stats.Percentile(all, 75))))
	}
	return fmt.Sprintf("All loads together, the median of the %d ratios of slices that followed one another: %s.\n\n", count, strings.Join(parts, ", "))
}

// markdown is the section about speed.
func (s Speed) markdown() string {
	var out strings.Builder
	out.WriteString(`## Speed

What a request costs when nothing happens. All peers run all the time, each as one process with one thread, before four backends that answer at once with fixed bytes. h2load sends, one request at a time over each connection, for a second or two to each peer in turn; in every other round the order is reversed. There are several rounds for every start of the peers, fewer with 1,000 connections; in most of them only this load balancer and Caddy's own proxy take part. "2 of 4 up": two backends were killed, and the peers had 8 s to notice. HTTP/2 is that of the clients, in cleartext; backends are spoken to in HTTP/1.1.

`)
	fmt.Fprintf(&out, "%s In each cell: the median of the rounds (lowest–highest), the peers started anew %d times. %s ", about(s.About, s.Took), s.Repeat, legend)
	if s.Pinned {
		out.WriteString("The peers had one core to themselves, load and backends another.\n\n")
	} else {
		out.WriteString("Peers, load and backends shared all cores.\n\n")
	}
	out.WriteString("### Beside Caddy's own proxy\n\n`load_balance` as a multiple of `reverse_proxy` with the same options: the ratio of the medians, and the lowest and highest ratio of slices that followed one another. " + strings.TrimSpace(lostMark) + ": worse in every round.\n\n")
	for _, pair := range s.Pairs {
		fmt.Fprintf(&out, "%s : %s\n\n", pair.Ours, pair.Stock)
		lines := [][]string{{"load", "processor time", "requests a second", "median latency", "99th percentile"}}
		for _, cell := range s.cells() {
			cells := []string{cell.String()}
			for _, what := range speedFigures {
				ratio := s.ratio(what, cell, pair)
				text := ratio.String()
				if what.better == lowerIsBetter && ratio.low > 1 || what.better == higherIsBetter && ratio.high < 1 {
					text += lostMark
				}
				cells = append(cells, text)
			}
			lines = append(lines, cells)
		}
		out.WriteString(markdown(lines) + "\n" + s.overall(pair))
	}
	for _, size := range s.sizes() {
		fmt.Fprintf(&out, "![Processor time, bodies of %s](plots/%s)\n\n", sizeName(size), speedPlot(size))
	}
	for _, what := range speedFigures {
		t := s.table(what)
		fmt.Fprintf(&out, "### %s\n\n%s\n\n%s\n", what.name, what.means, t.markdown(t.losses(what.better, enough)))
	}
	out.WriteString(details(busy.name+", "+busy.means, s.table(busy).markdown(nil)))
	out.WriteString(s.invalid())
	out.WriteString(s.inside())
	return out.String()
}

// invalid lists the slices that are left out.
func (s Speed) invalid() string {
	lines := [][]string{{"load", "peer", "round", "answered", "failed"}}
	for _, slice := range s.Slices {
		if !slice.valid() {
			lines = append(lines, []string{
				slice.String(), slice.Peer,
				strconv.Itoa(slice.Round + 1), strconv.Itoa(slice.Requests), strconv.Itoa(slice.Errors),
			})
		}
	}
	if len(lines) == 1 {
		return ""
	}
	return details(fmt.Sprintf("%d of %d slices are left out: more than 1 %% of the requests failed, or none was answered", len(lines)-1, len(s.Slices)), markdown(lines))
}

// sizes are those of the bodies.
func (s Speed) sizes() []int {
	return distinct(s.Slices, func(s Slice) int { return s.Size })
}

func speedPlot(size int) string { return fmt.Sprintf("speed_%d.svg", size) }
