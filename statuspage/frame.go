package statuspage

import (
	"cmp"
	"slices"
	"time"
)

// maxRows is how many upstreams and how many pools are shown at most.
const maxRows = 200

// frame is what a query shows of a picture.
type frame struct {
	Time time.Time
	// Parts are what is shown, by key; Layout is which pools there are and
	// which rows they have, in order.
	Parts  map[string]any
	Layout []block
	// Counts is the traffic of the pools and rows, and of all under
	// summaryKey.
	Counts map[string]counts
}

// block is a pool and its rows, by key.
type block struct {
	Pool string   `json:"pool"`
	Rows []string `json:"rows"`
}

// found is what a query finds in a pool.
type found struct {
	pool *poolPicture
	// matched counts the upstreams, byRank are the first ones of each rank,
	// picked how many of them are shown.
	matched int
	byRank  [ranks][]int
	picked  [ranks]int
}

// compose makes the frame of a query.
func compose(p *picture, q query) *frame {
	f := &frame{Time: p.Time, Parts: make(map[string]any), Counts: make(map[string]counts)}
	var sum summary
	var all counts
	var list []found
	says := note{Query: q, Pools: len(p.Pools)}
	for i := range p.Pools {
		pool := &p.Pools[i]
		sum.Pools++
		sum.Health.add(pool.Health)
		if pool.Health.Dead() {
			sum.Dead++
		}
		all.add(pool.Counts)
		if here := q.find(pool); here.matched > 0 || len(pool.Upstreams) == 0 && has(pool.Name, q.Search) {
			list = append(list, here)
			says.Matched += here.matched
		}
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.pool.Health.order(), b.pool.Health.order()) })
	says.Shown = pick(list)
	for i := range list {
		if list[i].matched > 0 && list[i].shown() == 0 || len(f.Layout) == maxRows {
			says.Hidden++
			continue
		}
		f.lay(&list[i])
	}
	f.Parts[summaryKey], f.Counts[summaryKey] = sum, all
	f.Parts[noteKey] = says
	f.Parts[logKey] = logOf(p.Log)
	return f
}

// find returns what a query finds in a pool.
func (q query) find(pool *poolPicture) found {
	here := found{pool: pool}
	for i := range pool.Upstreams {
		u := &pool.Upstreams[i]
		if !q.shows(u) {
			continue
		}
		here.matched++
		if r := rankOf(u); len(here.byRank[r]) < maxRows {
			here.byRank[r] = append(here.byRank[r], i)
		}
	}
	return here
}

// pick chooses the rows to show and returns how many they are: those of the
// first rank before those of the next, and within a rank the first ones of
// all pools before the second ones, so that no pool hides another.
func pick(list []found) int {
	left := maxRows
	for r := range ranks {
		for depth, more := 0, true; more && left > 0; depth++ {
			more = false
			for i := range list {
				if len(list[i].byRank[r]) > depth && left > 0 {
					list[i].picked[r]++
					left--
					more = true
				}
			}
		}
	}
	return maxRows - left
}

func (here *found) shown() int {
	n := 0
	for _, picked := range here.picked {
		n += picked
	}
	return n
}

// lay adds a pool and its rows to the frame.
func (f *frame) lay(here *found) {
	key := poolKey(here.pool.Name)
	b := block{Pool: key, Rows: []string{}}
	for r, picked := range here.picked {
		for _, i := range here.byRank[r][:picked] {
			u := &here.pool.Upstreams[i]
			k := rowKey(here.pool.Name, u.Address)
			b.Rows = append(b.Rows, k)
			f.Parts[k], f.Counts[k] = rowOf(u, here.pool, f.Time), countsOf(u)
		}
	}
	f.Parts[key] = pool{Name: here.pool.Name, Health: here.pool.Health, Shown: len(b.Rows)}
	f.Counts[key] = here.pool.Counts
	f.Layout = append(f.Layout, b)
}
