//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// benchmark is what was timed: of ours or of Caddy's own proxy.
type benchmark struct {
	ours      bool
	what      string
	upstreams int
}

// measurePicks returns how long picks and swaps take, in nanoseconds.
func measurePicks() (map[benchmark]float64, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-benchtime", "200ms",
		"-bench", "^BenchmarkSelect$/^upstreams=[0-9]+$/^all_up$|^BenchmarkSwap$",
		"github.com/caddy-loadbalance/caddy-loadbalance/upstreams")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, output)
	}
	return parsePicks(output), nil
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(Select|Swap)/upstreams=(\d+)/?(?:all_up/(ours|stock))?(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// parsePicks reads what go test prints.
func parsePicks(output []byte) map[benchmark]float64 {
	took := make(map[benchmark]float64)
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		m := benchmarkLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		of := benchmark{ours: m[3] != "stock", what: "pick"}
		if m[1] == "Swap" {
			of.what = "swap"
		}
		of.upstreams, _ = strconv.Atoi(m[2])
		took[of], _ = strconv.ParseFloat(m[4], 64)
	}
	return took
}
