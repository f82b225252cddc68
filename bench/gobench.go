//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

// module is where the packages with Go's benchmarks are.
const module = "github.com/caddy-loadbalance/caddy-loadbalance"

// goBenchmarks runs go test with those arguments.
func goBenchmarks(arguments ...string) ([]report.Benchmark, error) {
	cmd := exec.Command("go", append([]string{"test", "-v"}, arguments...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, output)
	}
	return report.ParseBenchmarks(bytes.NewReader(output))
}

// nanoseconds returns the time of one operation, 0 if it was not measured.
func nanoseconds(all []report.Benchmark, name string) float64 {
	i := slices.IndexFunc(all, func(b report.Benchmark) bool { return b.Name == name })
	if i < 0 {
		return 0
	}
	return stats.Median(all[i].Values["ns/op"])
}
