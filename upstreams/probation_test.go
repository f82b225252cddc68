package upstreams

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// After an ejection a passed check puts an upstream back, which may fail its
// requests all the same: it gets one at a time until one is answered in full.
func TestProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, patient(ejecting(1, time.Hour)))
		l.start()
		synctest.Wait()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		if l.in() != "bcd" {
			t.Fatalf("in rotation: %s", l.in())
		}
		l.change(func() { l.slow = 30 * time.Millisecond })
		// burst sends 40 requests at once, and returns how many a:1 got.
		burst := func() int {
			var (
				wg    sync.WaitGroup
				mutex sync.Mutex
				n     int
			)
			for range 40 {
				wg.Go(func() {
					address, resp, err := l.request(t).answer()
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
					}
					mutex.Lock()
					defer mutex.Unlock()
					if address == "a:1" {
						n++
					}
				})
				synctest.Wait() // one after the other comes to wait
			}
			wg.Wait()
			return n
		}
		time.Sleep(11 * time.Second)
		for _, step := range []struct {
			what string
			want int
			then func()
		}{
			{"while it fails", 1, func() {}},
			{"out again", 0, func() { l.status["a:1"] = 0 }},
			{"on probation", 1, func() {}},
			{"when it has answered", 10, func() {}},
		} {
			if step.what == "on probation" {
				time.Sleep(16 * time.Second) // the second ejection
			}
			if got := burst(); got != step.want {
				t.Errorf("%s: %d requests, want %d", step.what, got, step.want)
			}
			l.change(step.then)
		}
	})
}

// Probation is for when there are others.
func TestProbationOfTheOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, ejecting(1, time.Hour))
		l.start()
		synctest.Wait()
		l.change(func() { l.status["a:1"] = 500 })
		l.rounds(t, 1)
		l.change(func() { l.status["a:1"], l.sick["b:1"], l.sick["c:1"], l.sick["d:1"] = 0, true, true, true })
		time.Sleep(11 * time.Second)
		if l.in() != "a" {
			t.Fatalf("in rotation: %s", l.in())
		}
		l.change(func() { l.slow = 30 * time.Millisecond; l.body = io.NopCloser(strings.NewReader("")) })
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if address, err := l.request(t).try(); address != "a:1" || err != nil {
					t.Errorf("%s: %v", address, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}
