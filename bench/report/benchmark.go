package report

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Benchmark is one of Go's, inside one process.
type Benchmark struct {
	Name string
	// Values are what it reported, by unit, once for every repetition.
	Values map[string][]float64
}

var (
	processors  = regexp.MustCompile(`-\d+$`)
	allocations = regexp.MustCompile(`allocations per request: map\[ours:(\S+) stock:(\S+)\]`)
)

// ParseBenchmarks reads what go test -bench -v writes, and the allocations that
// a test logs.
func ParseBenchmarks(output io.Reader) ([]Benchmark, error) {
	var all []Benchmark
	add := func(name, value, unit string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		i := slices.IndexFunc(all, func(b Benchmark) bool { return b.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, Benchmark{name, make(map[string][]float64)})
		}
		all[i].Values[unit] = append(all[i].Values[unit], number)
		return nil
	}
	test := ""
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "=== RUN"); ok {
			test = strings.TrimSpace(name)
		}
		if found := allocations.FindStringSubmatch(line); found != nil {
			if err := add(test, found[1], "ours-allocs"); err != nil {
				return nil, err
			}
			if err := add(test, found[2], "stock-allocs"); err != nil {
				return nil, err
			}
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(fields[0], "")
		for i := 2; i+1 < len(fields); i += 2 {
			if err := add(name, fields[i], fields[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return all, lines.Err()
}
