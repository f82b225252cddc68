package report

import (
	"fmt"
	"strings"
)

// markdown is the section about many upstreams.
func (s Scale) markdown() string {
	var out strings.Builder
	out.WriteString("## Scale\n\nWhat many upstreams cost while they are checked and nothing else happens.\n\n" + about(s.About, s.Took) + "\n\n")
	out.WriteString("![Processor time of checking](plots/scale_cpu.svg)\n\n![Memory](plots/scale_memory.svg)\n\n![Checks over time](plots/scale_probes.svg)\n\n")
	lines := [][]string{{
		"peer, upstreams", "processor, %", "a plain client, %", "memory, MB", "heap each, B",
		"most : mean", "pick, ns", "change, µs", "reload, ms",
	}}
	for _, r := range s.Rows {
		line := []string{fmt.Sprintf("%s, %d", r.Peer, r.Upstreams)}
		for _, v := range []float64{r.CPU, r.ExchangeCPU, r.RSS, r.HeapPerUpstream, r.MaxToMean, r.PickNs, r.SwapUs, r.ReloadMs} {
			cell := "–"
			if v != 0 {
				cell = short(v)
			}
			line = append(line, cell)
		}
		if r.ReloadMs == ReloadFailed {
			line[len(line)-1] = "failed"
		}
		lines = append(lines, line)
	}
	out.WriteString(markdown(lines))
	out.WriteString(`
- Processor: what checking takes, in percent of a core. A plain client: what a small Go program takes for the same exchanges.
- Memory: of the process. Heap each: live heap that an upstream adds, compared with the fewest.
- Most : mean: the checks that began in the busiest tenth of a second, as a multiple of the mean, after the first round; with few upstreams chance alone makes it large.
- Pick: the choice of an upstream for a request. Change: a new rotation, when half of the upstreams enter or leave it. Reload: until the new configuration serves; it fails if that takes more open files than the machine allows, as with connections that are kept.

`)
	return out.String()
}

// peers are those that were measured.
func (s Scale) peers() []string {
	return distinct(s.Rows, func(r ScaleRow) string { return r.Peer })
}
