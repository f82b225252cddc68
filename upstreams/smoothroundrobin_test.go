package upstreams

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// fuse is a circuit breaker by which a test takes an upstream of Caddy's own
// proxy out.
type fuse struct{ blown atomic.Bool }

func (f *fuse) OK() bool                        { return !f.blown.Load() }
func (f *fuse) RecordMetric(int, time.Duration) {}

// fusedPool returns n upstreams of Caddy's own proxy, each with its fuse.
func fusedPool(t testing.TB, n int) (reverseproxy.UpstreamPool, []*fuse) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var pool reverseproxy.UpstreamPool
	var fuses []*fuse
	for i := range n {
		f := new(fuse)
		h := &reverseproxy.Handler{
			Transport: only(nil), CB: f,
			Upstreams: reverseproxy.UpstreamPool{{Dial: dial(i)}},
		}
		if err := h.Provision(ctx); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Cleanup() })
		pool, fuses = append(pool, h.Upstreams[0]), append(fuses, f)
	}
	return pool, fuses
}

// picked returns how often each upstream is picked by n requests.
func picked(t testing.TB, s *SmoothRoundRobin, pool reverseproxy.UpstreamPool, n int) []int {
	t.Helper()
	list := make([]int, len(pool))
	for range n {
		up := s.Select(pool, nil, nil)
		at := slices.Index(pool, up)
		if at < 0 {
			t.Fatalf("picked %v", up)
		}
		list[at]++
	}
	return list
}

func TestSmoothRoundRobinOrder(t *testing.T) {
	pool, _ := fusedPool(t, 3)
	for _, tc := range []struct {
		weights []int
		want    string
	}{
		{nil, "bcabca"}, // begins like Caddy's round_robin
		{[]int{3, 3, 3}, "bcabca"},
		{[]int{5, 1, 1}, "baaacaabaaaca"},
		{[]int{0, 2, 1}, "cbbcbb"},
		{[]int{2, 1}, "baabaa"},
		{[]int{0, 0, 1, 7}, "cccc"},
	} {
		s := &SmoothRoundRobin{Weights: tc.weights}
		got := ""
		for range tc.want {
			got += string('a' + rune(slices.Index(pool, s.Select(pool, nil, nil))))
		}
		if got != tc.want {
			t.Errorf("weights %v: got %s, want %s", tc.weights, got, tc.want)
		}
	}
}

// Whichever upstreams are out, the others share the requests as their weights
// say, exactly, from the first request on.
func TestSmoothRoundRobinSharesAmongAvailable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole, fuses := fusedPool(t, 20)
	for range 60 {
		pool := whole[:1+random.IntN(len(whole))]
		s := new(SmoothRoundRobin)
		if random.IntN(4) > 0 {
			s.Weights = randomWeights(random, 25, 0, 9)
		}
		for range 20 {
			sum := 0
			want := make([]int, len(pool))
			for i := range pool {
				out := random.IntN(3) == 0
				fuses[i].blown.Store(out)
				if !out {
					want[i] = s.weight(i)
					sum += want[i]
				}
			}
			if sum == 0 {
				if up := s.Select(pool, nil, nil); up != nil {
					t.Fatalf("picked %v, though nothing with a weight is available", up)
				}
				continue
			}
			if got := picked(t, s, pool, sum); !slices.Equal(got, want) {
				t.Fatalf("weights %v: got shares %v, want %v", s.Weights, got, want)
			}
		}
	}
}

// Upstreams of a dynamic source are others at every request, and not always
// as many. What counts is the place.
func TestSmoothRoundRobinWithAChangingPool(t *testing.T) {
	s := &SmoothRoundRobin{Weights: []int{3, 1, 2, 1}}
	if up := s.Select(nil, nil, nil); up != nil {
		t.Errorf("picked %v of nothing", up)
	}
	for _, n := range []int{4, 2, 3, 1, 0, 4, 6, 2} {
		want := append(slices.Clone(s.Weights), 0, 0)[:n]
		got := make([]int, n)
		sum := 0
		for _, w := range want {
			sum += w
		}
		for range 5 * sum {
			var pool reverseproxy.UpstreamPool
			for i := range n {
				pool = append(pool, &reverseproxy.Upstream{Dial: dial(i), Host: new(reverseproxy.Host)})
			}
			got[slices.Index(pool, s.Select(pool, nil, nil))]++
		}
		for i := range want {
			if got[i] != 5*want[i] {
				t.Errorf("%d upstreams: got shares %v, want 5 times %v", n, got, want)
				break
			}
		}
	}
}

// Requests at the same time get exact shares while nothing changes, and never
// an upstream that is out while others come and go.
func TestSmoothRoundRobinConcurrently(t *testing.T) {
	pool, fuses := fusedPool(t, 4)
	s := &SmoothRoundRobin{Weights: []int{5, 3, 1, 4}}
	s.Select(pool, nil, nil)
	var got [4]atomic.Int64
	pick := func() {
		up := s.Select(pool, nil, nil)
		got[slices.Index(pool, up)].Add(1)
	}
	together := func(work func()) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 13 * 100 {
					work()
				}
			})
		}
		wg.Wait()
	}
	together(pick)
	for i, w := range s.Weights {
		if n := got[i].Load(); n != int64(w*400) {
			t.Errorf("place %d picked %d times, want %d", i, n, w*400)
		}
	}

	fuses[3].blown.Store(true)
	got[3].Store(0)
	together(func() {
		fuses[1].blown.Store(rand.IntN(2) == 0)
		pick()
	})
	if n := got[3].Load(); n > 0 {
		t.Errorf("picked %d times while out", n)
	}
	fuses[1].blown.Store(false)
	if got, want := picked(t, s, pool, 9), []int{5, 3, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("afterwards: got shares %v, want %v", got, want)
	}

	s.building.Store(true) // somebody is at it
	fuses[0].blown.Store(true)
	if got, want := picked(t, s, pool, 4), []int{0, 2, 1, 0}; got[0] != 0 || got[1] == 0 || got[2] == 0 || got[3] != 0 {
		t.Errorf("meanwhile: got shares %v, want about %v", got, want)
	}
	for _, f := range fuses {
		f.blown.Store(true)
	}
	if up := s.Select(pool, nil, nil); up != nil {
		t.Errorf("picked %v, though all are out", up)
	}
}

func TestSmoothRoundRobinAllocatesNothing(t *testing.T) {
	pool, fuses := fusedPool(t, 5)
	fuses[2].blown.Store(true)
	s := &SmoothRoundRobin{Weights: []int{5, 3, 1, 4, 0}}
	s.Select(pool, nil, nil)
	if n := testing.AllocsPerRun(1000, func() { s.Select(pool, nil, nil) }); n > 0 {
		t.Errorf("%v allocations per pick", n)
	}
}

func TestSmoothRoundRobinCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []int
		err  string // none if empty
	}{
		{text: "smooth_round_robin"},
		{text: "smooth_round_robin 5 1 0", want: []int{5, 1, 0}},
		{text: "smooth_round_robin 7", want: []int{7}},
		{text: "smooth_round_robin \"5\" 1", want: []int{5, 1}},
		{text: "smooth_round_robin 0", err: "weights: must have one above zero"},
		{text: "smooth_round_robin 0 0", err: "weights: must have one above zero"},
		{text: "smooth_round_robin 5 -1", err: "a weight must be a whole number of zero or more, not '-1'"},
		{text: "smooth_round_robin 5 x 1", err: "a weight must be a whole number of zero or more, not 'x'"},
		{text: "smooth_round_robin 1.5", err: "not '1.5'"},
		{text: "smooth_round_robin \"\"", err: "not ''"},
		{text: "smooth_round_robin 99999999999999999999", err: "not '99999999999999999999'"},
		{text: "smooth_round_robin 1 {\n}", err: "unexpected block"},
		{text: "smooth_round_robin {\n1\n}", err: "unexpected block"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			tokens, err := caddyfile.Tokenize([]byte("\n"+tc.text), "Caddyfile")
			if err != nil {
				t.Fatal(err)
			}
			s := new(SmoothRoundRobin)
			err = s.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens))
			switch {
			case tc.err == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.err == "" && !slices.Equal(s.Weights, tc.want):
				t.Errorf("got weights %v, want %v", s.Weights, tc.want)
			case tc.err != "" && err == nil:
				t.Error("accepted")
			case tc.err != "" && (!strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "at Caddyfile:")):
				t.Errorf("got error %q, want %q and the line in it", err, tc.err)
			}
		})
	}
}

func TestSmoothRoundRobinValidate(t *testing.T) {
	for _, tc := range []struct {
		weights []int
		want    string
	}{
		{nil, ""},
		{[]int{}, ""},
		{[]int{0, 3}, ""},
		{[]int{0, 0}, "weights: must have one above zero"},
		{[]int{3, -1}, "weights[1]: must not be negative: -1"},
	} {
		err := (&SmoothRoundRobin{Weights: tc.weights}).Validate()
		if got := fmt.Sprint(err); err == nil && tc.want != "" || err != nil && got != tc.want {
			t.Errorf("weights %v: got %s, want %q", tc.weights, got, tc.want)
		}
	}
}

// BenchmarkSmoothRoundRobin compares a pick in Caddy's own proxy with those
// of Caddy's round robins, with all upstreams available and with one out.
func BenchmarkSmoothRoundRobin(b *testing.B) {
	for _, n := range []int{3, 100, 1000} {
		pool, fuses := fusedPool(b, n)
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 1 + i%5
		}
		weighted := &reverseproxy.WeightedRoundRobinSelection{Weights: weights}
		if err := weighted.Provision(caddy.Context{}); err != nil {
			b.Fatal(err)
		}
		for _, out := range []bool{false, true} {
			fuses[n/2].blown.Store(out)
			for name, policy := range map[string]reverseproxy.Selector{
				"round_robin":          new(reverseproxy.RoundRobinSelection),
				"weighted_round_robin": weighted,
				"smooth_round_robin":   &SmoothRoundRobin{Weights: weights},
			} {
				b.Run(fmt.Sprintf("upstreams=%d/one_out=%t/%s", n, out, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if policy.Select(pool, (*http.Request)(nil), nil) == nil {
							b.Fatal("no upstream")
						}
					}
				})
			}
		}
	}
}
