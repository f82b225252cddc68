package upstreams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSmooth(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []int
		want    string
	}{
		{"none", nil, ""},
		{"one", []int{7}, "a"},
		{"no weight", []int{0, 0}, ""},
		{"equal", []int{1, 1, 1}, "abc"},
		{"equal after reduction", []int{4, 4, 4}, "abc"},
		{"equal beside no weight", []int{4, 0, 4}, "ac"},
		{"two to one", []int{2, 1}, "aba"},
		{"one to two", []int{1, 2}, "bab"},
		{"spread", []int{5, 1, 1}, "abaaaca"},
		{"common divisor", []int{10, 2, 2}, "abaaaca"},
		{"no weight", []int{5, 0, 1}, "aaacaa"},
		{"classes in turn", []int{2, 1, 2, 1}, "abcadc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			for _, i := range smooth(tc.weights) {
				got += string('a' + i)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// randomWeights returns up to n weights from least to most.
func randomWeights(random *rand.Rand, n, least, most int) []int {
	weights := make([]int, 1+random.IntN(n))
	for i := range weights {
		weights[i] = least + random.IntN(most-least+1)
	}
	return weights
}

// counts returns how many turns each of n places has.
func counts(turns []int32, n int) []int {
	list := make([]int, n)
	for _, i := range turns {
		list[i]++
	}
	return list
}

// A period has every place exactly as often as its weight says, and is the
// shortest that does.
func TestSmoothIsExactOverAPeriod(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		most := []int{1, 3, 20, 256}[random.IntN(4)]
		weights := randomWeights(random, 200, 0, most)
		divisor := 0
		for _, w := range weights {
			divisor = gcd(divisor, w)
		}
		for i, n := range counts(smooth(weights), len(weights)) {
			if n*divisor != weights[i] {
				t.Fatalf("place %d has %d turns, weights %v", i, n, weights)
			}
		}
	}
}

// The period does not depend on the unit of the weights: tenths of a weight
// are no different from whole ones.
func TestSmoothKnowsNoUnit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		weights := randomWeights(random, 20, 0, 30)
		tenths := make([]int, len(weights))
		for i, w := range weights {
			tenths[i] = 10 * w
		}
		if !slices.Equal(smooth(weights), smooth(tenths)) {
			t.Fatalf("weights %v in tenths", weights)
		}
	}
}

// classic is smooth weighted round robin as NGINX made it known.
func classic(weights []int) []int32 { return spread(weights) }

// longestRun returns the longest run of the place in a period that is
// repeated.
func longestRun(turns []int32, place int) int {
	longest, run := 0, 0
	for _, i := range slices.Concat(turns, turns) {
		if int(i) != place {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return min(longest, len(turns))
}

// The heaviest place bunches no more than with the classic algorithm, and no
// more than it must.
func TestSmoothSpreadsTheHeaviest(t *testing.T) {
	check := func(weights []int) {
		t.Helper()
		heaviest := slices.Max(weights)
		others := -heaviest
		for _, w := range weights {
			others += w
		}
		turns := smooth(weights)
		for i, w := range weights {
			if w != heaviest {
				continue
			}
			run := longestRun(turns, i)
			if most := longestRun(classic(weights), i); run > most {
				t.Fatalf("%d turns in a row, the classic has at most %d: weights %v", run, most, weights)
			}
			if others > 0 && run > (heaviest+others-1)/others {
				t.Fatalf("%d turns in a row: weights %v", run, weights)
			}
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		check(randomWeights(random, 12, 1, []int{3, 10, 50}[random.IntN(3)]))
	}
	for range 100 {
		check(randomWeights(random, 40, 1, 256))
	}
	check([]int{7, 2, 1, 1}) // classes spread like single places would bunch more
	for a := 1; a <= 9; a++ {
		for b := 1; b <= 9; b++ {
			for c := 1; c <= 9; c++ {
				check([]int{a, b, c})
			}
		}
	}
}

// No place waits for more than about twice its fair time, as with the classic
// algorithm.
func TestSmoothLeavesNobodyWaiting(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		weights := randomWeights(random, 20, 1, 30)
		turns := smooth(weights)
		own := counts(turns, len(weights))
		last := make(map[int32]int)
		for at, i := range slices.Concat(turns, turns) {
			fair := float64(len(turns)) / float64(own[i])
			if before, ok := last[i]; ok && float64(at-before) > 2.5*fair {
				t.Fatalf("place %d waits for %d turns, should for %.1f: weights %v", i, at-before, fair, weights)
			}
			last[i] = at
		}
	}
}

func TestSmoothIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	many := make([]int, 10_000)
	for i := range many {
		many[i] = 1 + random.IntN(256)
	}
	ramp := slices.Repeat([]int{10}, 10_000)
	ramp[17] = 1
	for _, tc := range []struct {
		name    string
		weights []int
		least   int // turns of a period
	}{
		{"extremes", []int{math.MaxInt, 7, 1, 999_983, math.MaxInt / 2}, maxTurns - 2},
		{"all extreme", []int{math.MaxInt, math.MaxInt - 1}, maxTurns - 2},
		{"one above", []int{maxTurns, 1}, maxTurns - 1},
		{"many", many, maxTurns * 9 / 10},
		{"a ramp among many", ramp, maxTurns * 9 / 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			turns := smooth(tc.weights)
			if len(turns) > maxTurns || len(turns) < tc.least {
				t.Fatalf("%d turns, want %d to %d", len(turns), tc.least, maxTurns)
			}
			byWeight := make(map[int]int)
			sum := 0.0
			for _, w := range tc.weights {
				sum += float64(w)
			}
			for i, n := range counts(turns, len(tc.weights)) {
				w := tc.weights[i]
				if n == 0 {
					t.Fatalf("weight %d has no turn", w)
				}
				if other, known := byWeight[w]; known && other != n {
					t.Fatalf("weight %d has %d turns and %d", w, n, other)
				}
				byWeight[w] = n
				if fair := float64(w) / sum * float64(len(turns)); math.Abs(float64(n)-fair) > max(1, fair/10) {
					t.Errorf("weight %d has %d turns, should have %.1f", w, n, fair)
				}
			}
		})
	}
	for _, places := range []int{maxTurns, 2 * maxTurns} { // nobody loses its turn
		weights := slices.Repeat([]int{1}, places)
		weights[0] = 5
		if n := len(smooth(weights)); n != places {
			t.Errorf("%d places: %d turns", places, n)
		}
	}
}

func BenchmarkSmooth(b *testing.B) {
	random := rand.New(rand.NewPCG(11, 12))
	bench := func(name string, n, least, most int) {
		weights := make([]int, n)
		for i := range weights {
			weights[i] = least + random.IntN(most-least+1)
		}
		b.Run(fmt.Sprintf("places=%d/%s", n, name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				smooth(weights)
			}
			b.ReportMetric(float64(len(smooth(weights))), "turns")
		})
	}
	for _, n := range []int{3, 100, 1_000, 10_000} {
		bench("weights=1..256", n, 1, 256)
	}
	bench("equal", 1_000, 1, 1)
	bench("equal", 10_000, 1, 1)
	bench("any", 10_000, 1, 1<<30)
}
