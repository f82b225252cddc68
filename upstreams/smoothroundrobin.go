package upstreams

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func init() {
	caddy.RegisterModule(new(SmoothRoundRobin))
}

// SmoothRoundRobin is a policy that gives every available upstream its share
// of the requests, exactly, and spreads them: 5, 1 and 1 are not five
// requests in a row. While an upstream is out, the others keep their
// proportions.
//
// It is the default of the load_balance handler, and works in reverse_proxy,
// too.
type SmoothRoundRobin struct {
	// The weight of each upstream, in the order of the configured upstreams:
	// how many requests it gets in each period. One of weight 0, or beyond
	// the end of the list, gets none. Default: all have the same weight.
	Weights []int `json:"weights,omitempty"`

	cursor  atomic.Uint64
	current atomic.Pointer[period]
	// building is set while somebody makes the next period.
	building atomic.Bool
}

// period is the order of turns while just these places are to be had.
type period struct {
	in    []bool // by place
	turns []int32
}

// CaddyModule returns the Caddy module information.
func (*SmoothRoundRobin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.selection_policies.smooth_round_robin",
		New: func() caddy.Module { return new(SmoothRoundRobin) },
	}
}

// UnmarshalCaddyfile sets up the policy from Caddyfile tokens. Syntax:
//
//	smooth_round_robin [<weights...>]
//
// The weights are whole numbers of zero or more, at least one above zero.
func (s *SmoothRoundRobin) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the policy's name
	for d.NextArg() {
		weight, err := strconv.Atoi(d.Val())
		if err != nil || weight < 0 {
			return d.Errf("smooth_round_robin: a weight must be a whole number of zero or more, not '%s'", d.Val())
		}
		s.Weights = append(s.Weights, weight)
	}
	if err := s.Validate(); err != nil {
		return d.Errf("smooth_round_robin: %w", err)
	}
	if d.Next() {
		return d.Err("smooth_round_robin: unexpected block")
	}
	return nil
}

// Validate reports bad weights.
func (s *SmoothRoundRobin) Validate() error {
	most := 0
	for i, weight := range s.Weights {
		if weight < 0 {
			return fmt.Errorf("weights[%d]: must not be negative: %d", i, weight)
		}
		most = max(most, weight)
	}
	if len(s.Weights) > 0 && most == 0 {
		return errors.New("weights: must have one above zero")
	}
	return nil
}

// Select returns the available upstream whose turn it is, or nil if there is
// none. Like Caddy's round_robin it begins with the second turn.
//
// All that it knows of the last pick is which places were available. As long
// as that is so, it takes neither a lock nor memory.
func (s *SmoothRoundRobin) Select(pool reverseproxy.UpstreamPool, _ *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
	now := s.current.Load()
	if !s.holds(now, pool) {
		if !s.building.CompareAndSwap(false, true) {
			return s.anyOf(pool)
		}
		now = s.period(pool)
		s.current.Store(now)
		s.building.Store(false)
	}
	if len(now.turns) == 0 {
		return nil
	}
	return pool[now.turns[s.cursor.Add(1)%uint64(len(now.turns))]]
}

// holds reports whether p is still the period of the pool.
func (s *SmoothRoundRobin) holds(p *period, pool reverseproxy.UpstreamPool) bool {
	if p == nil || len(p.in) != len(pool) {
		return false
	}
	for i, up := range pool {
		if p.in[i] != s.eligible(i, up) {
			return false
		}
	}
	return true
}

// period returns the period of the pool.
func (s *SmoothRoundRobin) period(pool reverseproxy.UpstreamPool) *period {
	p := &period{in: make([]bool, len(pool))}
	weights := make([]int, len(pool))
	for i, up := range pool {
		if p.in[i] = s.eligible(i, up); p.in[i] {
			weights[i] = s.weight(i)
		}
	}
	p.turns = smooth(weights)
	return p
}

// anyOf returns an upstream without regard to weights, to a request that
// finds another one at work on the next period.
func (s *SmoothRoundRobin) anyOf(pool reverseproxy.UpstreamPool) *reverseproxy.Upstream {
	start := s.cursor.Add(1)
	for i := range pool {
		at := int((start + uint64(i)) % uint64(len(pool)))
		if s.eligible(at, pool[at]) {
			return pool[at]
		}
	}
	return nil
}

// eligible reports whether the upstream at the place may be picked.
func (s *SmoothRoundRobin) eligible(place int, up *reverseproxy.Upstream) bool {
	return s.weight(place) > 0 && up.Available()
}

// weight returns the weight of the place.
func (s *SmoothRoundRobin) weight(place int) int {
	switch {
	case len(s.Weights) == 0:
		return 1
	case place < len(s.Weights):
		return s.Weights[place]
	}
	return 0
}

// Interface guards
var (
	_ reverseproxy.Selector = (*SmoothRoundRobin)(nil)
	_ caddy.Validator       = (*SmoothRoundRobin)(nil)
	_ caddyfile.Unmarshaler = (*SmoothRoundRobin)(nil)
)
