package report

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

var selectName = regexp.MustCompile(`^BenchmarkSelect/upstreams=(\d+)/(all|one)_up/(ours|stock)$`)

// inside is the section about Go's benchmarks.
func (s Speed) inside() string {
	if len(s.Inside) == 0 {
		return ""
	}
	picks := make(map[string]map[string]Benchmark) // by what is up and by whom
	var names []string
	var others [][]string
	for _, b := range s.Inside {
		if m := selectName.FindStringSubmatch(b.Name); m != nil {
			name := m[1] + ", " + map[string]string{"all": "all up", "one": "all but one down"}[m[2]]
			if picks[name] == nil {
				picks[name] = make(map[string]Benchmark)
				names = append(names, name)
			}
			picks[name][m[3]] = b
			continue
		}
		for _, unit := range slices.Sorted(maps.Keys(b.Values)) {
			if unit == "ns/op" && stats.Median(b.Values[unit]) == 0 {
				continue // it has units of its own
			}
			name := strings.ReplaceAll(strings.TrimPrefix(b.Name, "Benchmark"), "_", " ")
			others = append(others, []string{name, unit, spreadOf(b.Values[unit]).String()})
		}
	}
	lines := [][]string{{"upstreams", "load_balance, ns", "reverse_proxy, ns", "allocations", "of reverse_proxy"}}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(upstreams(a), upstreams(b)), cmp.Compare(b, a))
	})
	for _, name := range names {
		our, stock := picks[name]["ours"].Values, picks[name]["stock"].Values
		cells := []string{name}
		for _, unit := range []string{"ns/op", "allocs/op"} {
			text := spreadOf(our[unit]).String()
			if stats.Median(our[unit]) > stats.Median(stock[unit]) {
				text += lostMark
			}
			cells = append(cells, text, spreadOf(stock[unit]).String())
		}
		lines = append(lines, cells)
	}
	out := "### Inside one process\n\nThe choice of an upstream, `go test -bench Select ./upstreams`:\n\n" + markdown(lines) + "\n"
	if len(others) > 0 {
		out += "A whole request through the handler, with connections that exist in memory only, `go test -bench ServeHTTP -run Allocations .`:\n\n" +
			markdown(slices.Insert(others, 0, []string{"benchmark", "unit", "figure"})) + "\n"
	}
	return out
}

// upstreams is the number that a name begins with.
func upstreams(name string) int {
	number, _, _ := strings.Cut(name, ",")
	n, _ := strconv.Atoi(number)
	return n
}
