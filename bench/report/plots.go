package report

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/chart"
)

// series gives every peer the same colour in all plots: Caddy's, ours and
// stock, are paler with fewer options.
func series(peer string) chart.Series {
	s := chart.Series{Name: peer}
	for i, prefix := range []string{"load_balance", "reverse_proxy", "HAProxy", "NGINX"} {
		if strings.HasPrefix(peer, prefix) {
			s.Color = i
		}
	}
	s.Pale = peer == "load_balance" || strings.HasSuffix(peer, "checks only")
	return s
}

// chart makes a table a chart. What is not to be drawn is left out.
func (t table) chart(title, axis string) chart.Rows {
	rows := chart.Rows{Title: title, Axis: axis, Values: make([][]chart.Value, len(t.peers))}
	for _, r := range t.rows {
		rows.Groups = append(rows.Groups, r.name)
	}
	for i, p := range t.peers {
		rows.Series = append(rows.Series, series(p))
		for _, r := range t.rows {
			f := r.figures[i]
			if math.IsInf(f.high, 1) {
				f = spreadOf(nil)
			}
			rows.Values[i] = append(rows.Values[i], chart.Value{Low: f.low, Mid: f.mid, High: f.high})
		}
	}
	return rows
}

func (f Faults) plot(folder string) error {
	for _, plot := range []struct {
		file, figure, title, axis string
		draw                      func(string, chart.Rows) error
	}{
		{"fault_errors.svg", "GET errors", "GET requests that failed, by fault", "errors, median of the repetitions (logarithmic; lines: lowest to highest)", chart.Bars},
		{"fault_slowest.svg", "Slowest GET", "The slowest GET request, by fault", "milliseconds, median of the repetitions (logarithmic; lines: lowest to highest)", chart.Dots},
	} {
		for _, what := range faultFigures {
			if what.name != plot.figure {
				continue
			}
			rows := f.table(what, false).chart(plot.title, plot.axis)
			rows.Log = true
			if err := plot.draw(filepath.Join(folder, plot.file), rows); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Speed) plot(folder string) error {
	for _, size := range s.sizes() {
		of := s
		of.Slices = nil
		for _, slice := range s.Slices {
			if slice.Size == size {
				of.Slices = append(of.Slices, slice)
			}
		}
		suffix := ", " + sizeName(size)
		t := of.table(speedFigures[0])
		for i := range t.rows {
			t.rows[i].name = strings.Replace(t.rows[i].name, suffix, "", 1)
		}
		rows := t.chart("Processor time of a request, bodies of "+sizeName(size), "microseconds, median of the rounds (lines: lowest to highest)")
		if err := chart.Bars(filepath.Join(folder, speedPlot(size)), rows); err != nil {
			return err
		}
	}
	return nil
}

func (s Scale) plot(folder string) error {
	cpu := chart.Graph{Title: "Processor time of checking", X: "upstreams", Y: "percent of a core", LogX: true, LogY: true, Dotted: true}
	memory := chart.Graph{Title: "Memory of the process", X: "upstreams", Y: "MB", LogX: true, Dotted: true}
	probes := chart.Graph{X: "seconds", Y: "checks begun in 100 ms", LogY: true, ZeroY: true}
	most := 0
	for _, r := range s.Rows {
		most = max(most, r.Upstreams)
	}
	probes.Title = fmt.Sprintf("Checks over time, %d upstreams", most)
	for _, p := range s.peers() {
		line := chart.Line{Series: series(p)}
		used, plain, held := line, line, line
		plain.Name, plain.Dashed = "a plain client doing the same as "+p, true
		for _, r := range s.Rows {
			if r.Peer != p {
				continue
			}
			x := float64(r.Upstreams)
			used.Points = append(used.Points, chart.Point{X: x, Y: r.CPU})
			plain.Points = append(plain.Points, chart.Point{X: x, Y: r.ExchangeCPU})
			held.Points = append(held.Points, chart.Point{X: x, Y: r.RSS})
			if r.Upstreams == most {
				begun := line
				for i, n := range r.ProbesPer100ms {
					begun.Points = append(begun.Points, chart.Point{X: float64(i) / 10, Y: float64(n)})
				}
				probes.Lines = append(probes.Lines, begun)
			}
		}
		cpu.Lines = append(cpu.Lines, used, plain)
		memory.Lines = append(memory.Lines, held)
	}
	for name, g := range map[string]chart.Graph{"scale_cpu.svg": cpu, "scale_memory.svg": memory, "scale_probes.svg": probes} {
		if err := chart.Lines(filepath.Join(folder, name), g); err != nil {
			return err
		}
	}
	return nil
}

func (s Soak) plot(folder string) error {
	goroutines := chart.Line{Series: chart.Series{Name: "goroutines"}}
	heap := chart.Line{Series: chart.Series{Name: "live heap"}}
	rss := chart.Line{Series: chart.Series{Name: "resident memory", Color: 1}}
	for _, p := range s.Points {
		goroutines.Points = append(goroutines.Points, chart.Point{X: p.Minute, Y: float64(p.Goroutines)})
		heap.Points = append(heap.Points, chart.Point{X: p.Minute, Y: p.HeapMB})
		rss.Points = append(rss.Points, chart.Point{X: p.Minute, Y: p.RSSMB})
	}
	err := chart.Lines(filepath.Join(folder, "soak_goroutines.svg"), chart.Graph{
		Title: "Goroutines over time", X: "minutes", Y: "goroutines", Lines: []chart.Line{goroutines},
	})
	if err != nil {
		return err
	}
	return chart.Lines(filepath.Join(folder, "soak_memory.svg"), chart.Graph{
		Title: "Memory over time", X: "minutes", Y: "MB", Lines: []chart.Line{heap, rss},
	})
}
