package upstreams

import (
	"fmt"
	"math"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// placesOf returns places named a, b, c ... of the weights.
func placesOf(weights ...int) []place {
	var places []place
	for i, w := range weights {
		name := string(rune('a' + i))
		places = append(places, place{&upstream{address: name, proxy: &reverseproxy.Upstream{Dial: name}}, w})
	}
	return places
}

func TestSmooth(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []int
		want    string
	}{
		{"none", nil, ""},
		{"one", []int{7}, "a"},
		{"equal", []int{1, 1, 1}, "abc"},
		{"equal after reduction", []int{4, 4, 4}, "abc"},
		{"spread", []int{5, 1, 1}, "aabacaa"},
		{"common divisor", []int{10, 2, 2}, "aabacaa"},
		{"two to one", []int{2, 1}, "aba"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			for _, up := range smooth(placesOf(tc.weights...)) {
				got += up.address
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSmoothIsExactOverAPeriod(t *testing.T) {
	weights := []int{256, 1, 17, 99, 3, 256, 128}
	counts := make(map[string]int)
	for _, up := range smooth(placesOf(weights...)) {
		counts[up.address]++
	}
	for i, at := range placesOf(weights...) {
		if counts[at.address] != weights[i] {
			t.Errorf("%s: %d turns, want %d", at.address, counts[at.address], weights[i])
		}
	}
}

func TestSmoothIsBounded(t *testing.T) {
	turns := smooth(placesOf(math.MaxInt, 7, 1, 999_983))
	if len(turns) > maxTurns {
		t.Fatalf("%d turns", len(turns))
	}
	counts := make(map[string]int)
	for _, up := range turns {
		counts[up.address]++
	}
	if got := fmt.Sprint(counts["b"] > 0, counts["c"] > 0, counts["a"] > counts["d"]); got != "true true true" {
		t.Errorf("turns %v", counts)
	}
}
