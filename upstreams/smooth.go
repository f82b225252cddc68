package upstreams

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// maxTurns is the most turns that a period has, unless there are more places.
const maxTurns = 1 << 16

// smooth returns a period of turns: the indices of the places in the order of
// their turns, each as often as its weight says. It is as short as the
// weights allow; those that allow no period within maxTurns are scaled down,
// to no less than one turn. Weight 0 has no turn. With equal weights the
// period is the places in the given order.
//
// The turns are spread in two steps, so that the work is that of the distinct
// weights, not of all places. The places of one weight form a class, whose
// turns they take one after the other. The heaviest class is spread evenly
// among all the others, so that no order has a heaviest place in shorter
// runs; the others are spread among themselves.
func smooth(weights []int) []int32 {
	classes := classify(reduced(weights))
	if len(classes) == 0 {
		return nil
	}
	var shares []int
	sum := 0
	for _, c := range classes {
		share := c.weight * len(c.members)
		shares = append(shares, share)
		sum += share
	}
	others := spread(shares[1:])
	turns := spread([]int{shares[0], sum - shares[0]})
	for i, side := range turns {
		c := &classes[0]
		if side != 0 {
			c, others = &classes[1+others[0]], others[1:]
		}
		turns[i] = c.turn()
	}
	return turns
}

// spread returns a period of turns that gives each as many as its share, at a
// steady pace: at every step all gain their share, the highest takes the turn
// and pays the sum.
func spread(shares []int) []int32 {
	sum := 0
	for _, share := range shares {
		sum += share
	}
	turns := make([]int32, sum)
	credit := make([]int, len(shares))
	for i := range turns {
		best := 0
		for k, share := range shares {
			credit[k] += share
			if credit[k] > credit[best] {
				best = k
			}
		}
		credit[best] -= sum
		turns[i] = int32(best)
	}
	return turns
}

// class is the places of one weight.
type class struct {
	weight  int
	members []int32
	next    int
}

// turn returns the member whose turn it is.
func (c *class) turn() int32 {
	member := c.members[c.next]
	if c.next++; c.next == len(c.members) {
		c.next = 0
	}
	return member
}

// classify returns the classes of places with a weight, the heaviest first.
func classify(weights []int) []class {
	members := make([]int32, 0, len(weights))
	for i, w := range weights {
		if w > 0 {
			members = append(members, int32(i))
		}
	}
	slices.SortStableFunc(members, func(a, b int32) int { return cmp.Compare(weights[b], weights[a]) })
	var classes []class
	for start, end := 0, 0; start < len(members); start = end {
		weight := weights[members[start]]
		for end < len(members) && weights[members[end]] == weight {
			end++
		}
		classes = append(classes, class{weight: weight, members: members[start:end]})
	}
	return classes
}

// reduced returns the weights without their common divisor; or, if that is
// still a period above maxTurns, in the same proportions as nearly as whole
// numbers of at least 1 allow.
func reduced(weights []int) []int {
	divisor, sum := 0, 0.0
	for _, w := range weights {
		divisor = gcd(divisor, w)
		sum += float64(w)
	}
	list := make([]int, len(weights))
	if divisor == 0 {
		return list
	}
	if sum/float64(divisor) <= maxTurns {
		for i, w := range weights {
			list[i] = w / divisor
		}
		return list
	}
	scale := func(turns int) (total int) {
		for i, w := range weights {
			if w > 0 {
				list[i] = max(1, int(math.Round(float64(w)/sum*float64(turns))))
				total += list[i]
			}
		}
		return total
	}
	less := sort.Search(maxTurns, func(less int) bool { return scale(maxTurns-less) <= maxTurns })
	scale(maxTurns - less)
	return list
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
