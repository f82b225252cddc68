package upstreams

import (
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// placesOf returns places named a, b, c ... of the weights.
func placesOf(weights ...int) []place {
	var places []place
	for i, w := range weights {
		name := string(rune('a' + i))
		places = append(places, place{&upstream{proxy: &reverseproxy.Upstream{Dial: name}}, w})
	}
	return places
}

func TestNewRotationLeavesOutWhatIsOut(t *testing.T) {
	places := placesOf(1, 0, 1, 1)
	rot := newRotation(places, func(u *upstream) bool { return u != places[2].upstream })
	if len(rot.pool) != 2 || len(rot.turns) != 2 {
		t.Errorf("pool %d, turns %d, want 2 and 2: no weight, no turn", len(rot.pool), len(rot.turns))
	}
}
