package report

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseBenchmarks(t *testing.T) {
	for name, tc := range map[string]struct {
		output string
		want   []Benchmark
		bad    bool
	}{
		"nothing": {output: "PASS\nok  \texample.com/x\t0.1s\n"},
		"repeated": {
			output: "goos: linux\n" +
				"BenchmarkSelect/upstreams=3/all_up/ours-2 \t 9 \t 12.5 ns/op \t 0 B/op \t 0 allocs/op\n" +
				"BenchmarkSelect/upstreams=3/all_up/ours-2 \t 9 \t 13 ns/op \t 0 B/op \t 0 allocs/op\n",
			want: []Benchmark{{"BenchmarkSelect/upstreams=3/all_up/ours", map[string][]float64{
				"ns/op": {12.5, 13}, "B/op": {0, 0}, "allocs/op": {0, 0},
			}}},
		},
		"one processor": {
			output: "BenchmarkX\nBenchmarkX/y\nBenchmarkX/y \t 5 \t 40 stock-ns \t -1.5 more-%\n",
			want:   []Benchmark{{"BenchmarkX/y", map[string][]float64{"stock-ns": {40}, "more-%": {-1.5}}}},
		},
		"allocations": {
			output: "=== RUN   TestAllocations\n=== RUN   TestAllocations/checks\n" +
				"    x_test.go:1: allocations per request: map[ours:64 stock:62]\n--- PASS: TestAllocations (0.1s)\n",
			want: []Benchmark{{"TestAllocations/checks", map[string][]float64{"ours-allocs": {64}, "stock-allocs": {62}}}},
		},
		"no number": {output: "BenchmarkX \t 5 \t x ns/op\n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBenchmarks(strings.NewReader(tc.output))
			if (err != nil) != tc.bad {
				t.Fatalf("error %v", err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
