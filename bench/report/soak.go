package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// markdown is the section about the long run.
func (s Soak) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "## Soak\n\nRandom faults and reloads for a long time, under load, with `load_balance`.\n\n%s\n\n", about(s.About, s.Took))
	count := strconv.Itoa
	out.WriteString(markdown([][]string{
		{"what", "number"},
		{"GET requests", count(s.Gets)},
		{"of which failed", count(s.GetErrors)},
		{"POST requests", count(s.Posts)},
		{"of which failed", count(s.PostErrors)},
		{"faults", count(s.Faults)},
		{"reloads", count(s.Reloads)},
		{"connections opened again", count(s.Redialed)},
	}))
	if len(s.Kinds) > 0 {
		lines := [][]string{{"error", "number"}}
		for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
			lines = append(lines, []string{kind, count(s.Kinds[kind])})
		}
		out.WriteString("\n" + markdown(lines))
	}
	if len(s.Points) > 0 {
		out.WriteString("\n![Goroutines](plots/soak_goroutines.svg)\n\n![Memory](plots/soak_memory.svg)\n\n")
	}
	return out.String()
}
