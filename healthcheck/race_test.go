package healthcheck

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Everything at once: requests and operators in pools of configs that come,
// go and are undone. The race detector is the judge; at the end nothing may
// be left.
func TestEverythingAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		var backends []*backend
		for i := range 6 {
			backends = append(backends, l.slow(string(rune('a'+i)), "p", time.Duration(i)*30*time.Millisecond))
		}
		set := withJitter(100 * time.Millisecond)
		set.Increment, set.MaxInterval, set.ReadmitAfter = 50*time.Millisecond, 500*time.Millisecond, time.Second
		set.MaxFailures = 3

		// current are the pools of whoever was the last to provision
		var current atomic.Pointer[[]*pool]
		provision := func() *config {
			c := l.build(
				&pool{name: "one", set: set, backends: backends},
				&pool{name: "two", set: set, backends: backends[3:]},
				&pool{name: "two", set: set, backends: backends[2:4], unchecked: []string{"other"}},
			)
			current.Store(&c.pools)
			return c
		}
		first := provision()
		first.gen.Start()

		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for i := range 1500 {
					pools := *current.Load()
					p := pools[rand.IntN(len(pools))]
					target := p.targets[rand.IntN(len(p.targets))]
					switch rand.IntN(9) {
					case 0:
						p.Ask(nil)
					case 1:
						target.CheckSoon()
					case 2:
						target.CheckNow()
					case 3:
						target.Readmit()
					case 4:
						target.Info()
					case 5:
						p.NextCheck()
					case 6:
						p.statuses()
					case 7:
						for _, g := range l.registry.Current() {
							g.Targets()[0].Info()
						}
					case 8:
						backends[rand.IntN(len(backends))].says(string("pfv"[rand.IntN(3)]))
					}
					if i%10 == 0 {
						time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
					}
				}
			})
		}
		for range 2 {
			all.Go(func() {
				var alive []*config
				for range 40 {
					c := provision()
					alive = append(alive, c)
					switch rand.IntN(4) {
					case 0: // does not start
					case 1: // starts and ends at once
						all.Go(c.gen.Start)
						all.Go(c.closePools)
					default:
						c.gen.Start()
					}
					time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
					for len(alive) > rand.IntN(3) { // the newest or the oldest ends
						i := rand.IntN(2) * (len(alive) - 1)
						alive[i].closePools()
						alive = slices.Delete(alive, i, i+1)
					}
				}
				for _, c := range alive {
					c.closePools()
				}
			})
		}
		all.Wait()
		synctest.Wait()
		// what is left is the first config, which goes on
		l.equal("current", slices.Equal(l.registry.Current(), first.groups()), true)
		for _, p := range first.pools {
			checkRules(l, p)
		}
		for _, b := range backends {
			b.says("p")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, p := range first.pools {
			for _, target := range p.targets {
				l.equal("status of "+target.Address(), target.Status(), Up)
			}
		}
		first.close()
	})
}

// One generation for all parts of a config, whoever asks first.
func TestGenerationOfAConfig(t *testing.T) {
	r := NewRegistry()
	var fresh atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, isFresh := r.Generation("config"); isFresh {
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	if n := fresh.Load(); n != 1 {
		t.Errorf("%d fresh generations", n)
	}
}
