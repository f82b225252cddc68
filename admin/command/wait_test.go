package command

import (
	"strings"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Waiting ends as soon as one of the upstreams is gone, or wanted otherwise.
func TestStill(t *testing.T) {
	a := admin.Upstream{Pool: "a", Address: "x", Operator: "drain"}
	b := admin.Upstream{Pool: "b", Address: "x", Operator: "drain"}
	ready := b
	ready.Operator = "ready"
	for _, tt := range []struct {
		now  []admin.Upstream
		want string
	}{
		{[]admin.Upstream{a, b}, ""},
		{[]admin.Upstream{b, a}, ""},
		{[]admin.Upstream{a}, "upstream x is gone from pool b"},
		{nil, "upstream x is gone from pool a"},
		{[]admin.Upstream{a, ready}, "upstream x in pool b is no longer in mode drain, but ready"},
	} {
		got := ""
		if err := still([]admin.Upstream{a, b}, tt.now, "drain"); err != nil {
			got = err.Error()
		}
		equal(t, got, tt.want)
	}
}

// Where no terminal is, progress is a line for every change.
func TestProgress(t *testing.T) {
	var out strings.Builder
	shown := progress{out: &out, what: "x"}
	for _, active := range [][2]int{{2, 1}, {1, 2}, {1, 0}, {1, 0}, {0, 0}} {
		shown.show([]admin.Upstream{{InFlight: active[0]}, {InFlight: active[1]}})
	}
	shown.end()
	equal(t, out.String(), "x: 3 requests under way\nx: 1 request under way\nx: 0 requests under way\n")
}
