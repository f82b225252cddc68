package upstreams

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// TestSelectionProperties plays random pools: whatever flips and fills up, no
// request goes to an upstream that is out of rotation or full, none to one
// that it has tried while an untried one is there, none to a backup while an
// untried primary is there, and over a period every upstream has exactly its
// share.
func TestSelectionProperties(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			synctest.Test(t, func(t *testing.T) { playPool(t, random) })
		})
	}
}

// model is what a random pool is supposed to be like.
type model struct {
	*lab
	*testing.T
	random *rand.Rand
	list   []Config
	up     map[string]bool
	full   map[string]bool
}

func playPool(t *testing.T, random *rand.Rand) {
	m := &model{T: t, random: random, up: make(map[string]bool), full: make(map[string]bool)}
	for i := range 1 + random.IntN(9) {
		m.list = append(m.list, Config{
			Dial: fmt.Sprintf("%c:1", 'a'+i), Weight: 1 + random.IntN(8), Backup: random.IntN(4) == 0, MaxRequests: 10,
		})
	}
	m.lab = newLab(t, func(cfg *PoolConfig) {
		cfg.Upstreams = m.list
		cfg.SingleRound = random.IntN(2) == 0
		cfg.Check.MaxFailures = -1
	})
	m.start()
	synctest.Wait()
	for _, u := range m.list {
		m.up[u.Dial] = true
	}
	for range 30 {
		m.flip()
		if len(m.full) == 0 {
			m.checkShares()
		}
		for range 5 {
			m.checkRequest()
		}
	}
}

// flip changes the status or the fullness of some upstreams.
func (m *model) flip() {
	places := m.pool.places.Load()
	for range m.random.IntN(3) {
		address := m.list[m.random.IntN(len(m.list))].Dial
		if m.random.IntN(4) == 0 {
			requests := 0
			if m.full[address] {
				delete(m.full, address)
			} else {
				m.full[address], requests = true, 10
			}
			fill(m.T, places.byAddress[address], requests)
			continue
		}
		m.up[address] = !m.up[address]
		m.set(!m.up[address], address)
		places.byAddress[address].target.CheckNow()
		synctest.Wait()
	}
}

// serving returns the total weight of the tier in service and its members.
func (m *model) serving() (total int, tier map[string]int) {
	for _, backup := range []bool{false, true} {
		tier = make(map[string]int)
		for _, u := range m.list {
			if u.Backup == backup && m.up[u.Dial] {
				tier[u.Dial] = u.Weight
				total += u.Weight
			}
		}
		if total > 0 {
			break
		}
	}
	return total, tier
}

func (m *model) checkShares() {
	total, tier := m.serving()
	if total == 0 {
		return
	}
	counts := make(map[string]int)
	for range 2 * total {
		counts[m.pool.Select(nil, m.request(m.T).req, nil).Dial]++
	}
	for address, weight := range tier {
		if counts[address] != 2*weight {
			m.Errorf("%s of weight %d has %d of %d requests", address, weight, counts[address], 2*total)
		}
	}
}

// checkRequest makes the attempts of one request, all of which fail.
func (m *model) checkRequest() {
	r := m.request(m.T)
	tried := make(map[string]bool)
	for range 1 + m.random.IntN(12) {
		untried := map[bool]int{} // by backup
		_, tier := m.serving()
		for _, u := range m.list {
			if m.up[u.Dial] && !m.full[u.Dial] && !tried[u.Dial] {
				untried[u.Backup]++
			}
		}
		up := m.pool.Select(nil, r.req, nil)
		if up == nil {
			if n := len(tier); n > 0 && len(tried) == 0 && untried[false] > 0 {
				m.Errorf("no upstream, though there are %d", n)
			}
			return
		}
		chosen := m.pool.places.Load().book[up]
		address := chosen.address
		backup := m.list[address[0]-'a'].Backup
		switch {
		case !m.up[address]:
			m.Errorf("%s is out of rotation", address)
		case m.full[address]:
			m.Errorf("%s is full", address)
		case tried[address] && untried[false] > 0:
			m.Errorf("%s tried again, though %d others were there", address, untried[false])
		case backup && untried[false] > 0:
			m.Errorf("backup %s chosen, though primaries are there", address)
		}
		tried[address] = true
		r.req.URL.Host = address
		r.record.attempts++
		r.record.path = append(r.record.path, chosen)
		if len(r.record.tried()) == 1 && len(tried) > 1 { // a new round
			tried = map[string]bool{address: true}
		}
	}
}
