package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// table is a kind of figure, fault by fault.
func (f Faults) table(what figure, reloads bool) table {
	t := table{head: "fault"}
	for _, p := range f.Peers {
		t.peers = append(t.peers, p.Name)
	}
	for _, s := range f.Scenarios {
		r := row{name: s.Name}
		measured := false
		for _, p := range t.peers {
			figure := f.spread(what, s.Name, p, reloads)
			measured = measured || !figure.none()
			r.figures = append(r.figures, figure)
		}
		if measured {
			t.rows = append(t.rows, r)
		}
	}
	return t
}

// spread is a figure of a scenario with a peer.
func (f Faults) spread(what figure, scenario, peer string, reloads bool) spread {
	var values []float64
	for _, r := range f.Runs {
		if r.Scenario == scenario && r.Peer == peer && r.Reloads == reloads {
			if v := what.of(r.Outcome); !math.IsNaN(v) {
				values = append(values, v)
			}
		}
	}
	return spreadOf(values)
}

// markdown is the section about faults.
func (f Faults) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, `## Faults

What clients see while backends fail. Three backends, each of which takes 30 ms for a request, and two clients that send at a steady pace, 250 GET and 50 POST requests a second unless the fault says otherwise, whether or not earlier ones have been answered. They give up after 10 s, again unless it does, and open a connection again, as a browser would, only if it was lost before anything came back and it was new or the request a GET. Health checks pass at a port of their own. The moment of a fault is random, and it lasts up to a second longer than said here, lest it end in step with the checks of a peer.

`)
	cell := fmt.Sprintf("the median of %d repetitions (lowest–highest)", f.Repeat)
	if f.Repeat == 1 {
		cell = "a single measurement, so small differences say nothing"
	}
	fmt.Fprintf(&out, "%s In each cell: %s. %s\n\n", about(f.About, f.Took), cell, legend)
	if f.Lanes > 1 {
		fmt.Fprintf(&out, "%d faults were played at a time, each with everything of its own, on the same processors.\n\n", f.Lanes)
	}
	for _, only := range f.Anew {
		fmt.Fprintf(&out, "Measured again after the rest: `-only '%s'`.\n\n", only)
	}
	lines := [][]string{{"fault", "what happens"}}
	for _, s := range f.Scenarios {
		lines = append(lines, []string{s.Name, s.What})
	}
	out.WriteString(strings.Replace(markdown(lines), "--:", "---", 1) + "\n")
	out.WriteString("![GET errors](plots/fault_errors.svg)\n\n![Slowest GET](plots/fault_slowest.svg)\n\n")
	var cells int
	var all []loss
	lost := [][]string{{"figure", "fault", "peer", "its figure", "the best", "whose", "every time"}}
	for _, what := range faultFigures {
		fmt.Fprintf(&out, "### %s\n\n%s\n\n", what.name, what.means)
		for _, reloads := range []bool{false, true} {
			t := f.table(what, reloads)
			if len(t.rows) == 0 {
				continue
			}
			losses := t.losses(what.better, what.tolerance)
			if what.better != neitherIsBetter {
				cells += t.ours()
			}
			name := what.name
			if reloads {
				name += ", reloads"
			}
			for _, l := range losses {
				always := ""
				if l.clear {
					always = "yes"
				}
				lost = append(lost, []string{name, l.row, l.peer, l.figure.String(), l.best.String(), l.by, always})
			}
			all = append(all, losses...)
			out.WriteString(reloadTitle(reloads) + t.markdown(losses) + "\n")
		}
	}
	out.WriteString(f.variants())
	fmt.Fprintf(&out, "### Where it loses\n\nIn %d of %d cells `load_balance` is worse than the best of the others, by medians: the best of several of about the same quality is better than any one of them. %s\n\n", len(all), cells, byPeer(all))
	if len(all) > 0 {
		out.WriteString(whyLost)
		out.WriteString(details("All of them", markdown(lost)))
	}
	return out.String()
}

// byPeer says whose losses they are, and how many are so in every repetition.
func byPeer(losses []loss) string {
	var parts []string
	for _, peer := range distinct(losses, func(l loss) string { return l.peer }) {
		n, clear := 0, 0
		for _, l := range losses {
			if l.peer == peer {
				n++
				if l.clear {
					clear++
				}
			}
		}
		parts = append(parts, fmt.Sprintf("`%s` in %d, of which in %d every repetition was worse than any of the best.", peer, n, clear))
	}
	return strings.Join(parts, " ")
}

// whyLost says what most losses come from.
const whyLost = `Most are those of the row with nothing but a health URI: it waits for a frozen backend for 5 s, the default of health_timeout, watches neither statuses nor bodies of traffic, answers 503 at once when all are down, and checks one that was down after 10 s, not every second. And when all are down, requests wait if they may, which takes longer than to fail; the thousand of them that come to the first backend that is back take all processors of this machine for a while.

`

func reloadTitle(reloads bool) string {
	if reloads {
		return "While the peer is reloaded every 2.5 s:\n\n"
	}
	return "Without reloads:\n\n"
}

// ours is how many cells are ours.
func (t table) ours() int {
	n := 0
	for _, r := range t.rows {
		for i, f := range r.figures {
			if ours(t.peers[i]) && !f.none() {
				n++
			}
		}
	}
	return n
}

// variants are peers that were measured in some scenarios only.
func (f Faults) variants() string {
	lines := [][]string{{"fault", "peer"}}
	for _, what := range faultFigures {
		lines[0] = append(lines[0], what.name)
	}
	type variant struct {
		scenario, peer string
		reloads        bool
	}
	var seen []variant
	for _, r := range f.Runs {
		v := variant{r.Scenario, r.Peer, r.Reloads}
		if slices.Contains(seen, v) || slices.ContainsFunc(f.Peers, func(p Peer) bool { return p.Name == r.Peer }) {
			continue
		}
		seen = append(seen, v)
		cells := []string{v.scenario, v.peer}
		if v.reloads {
			cells[0] += ", reloads"
		}
		for _, what := range faultFigures {
			cells = append(cells, f.spread(what, v.scenario, v.peer, v.reloads).String())
		}
		lines = append(lines, cells)
	}
	if len(seen) == 0 {
		return ""
	}
	return "### With another option\n\n" + markdown(lines) + "\n"
}
