package upstreams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request that finds nothing in rotation, and goes on when its config has
// been replaced, finds what comes back, also if the newer config checks it in
// another way. It asks that one for checks.
func TestRequestLeftBehindFindsWhatComesBack(t *testing.T) {
	for name, uri := range map[string]string{"the same check": "", "another check": "/up"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := newLab(t, pausing)
				old.set(true, all...)
				old.start()
				synctest.Wait()
				a := old.request(t)
				if address, _ := a.try(); address != "" {
					t.Fatalf("served by %s", address)
				}
				newer := newLab(t, func(cfg *PoolConfig) {
					pausing(cfg)
					cfg.Check.URI = uri
				})
				newer.set(true, all...)
				newer.start()
				old.stop()
				old.pool.Close()
				old.set(false, all...)
				time.Sleep(10 * time.Second)
				if address, _ := a.try(); address != "" { // asks for checks
					t.Fatalf("served by %s", address)
				}
				newer.set(false, all...)
				address, err := "", error(nil)
				for range 3 {
					if address, err = a.try(); address != "" {
						break
					}
				}
				if address == "" || err != nil {
					t.Errorf("left alone: %q %v", address, err)
				}
			})
		})
	}
}

// A request that makes its attempt only after its config was replaced is cut
// loose as well when what it waits for leaves rotation.
func TestLateAttemptIsRescued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newLab(t, rarely)
		old.start()
		synctest.Wait()
		newer := newLab(t, rarely)
		newer.start()
		old.pool.Close()
		for _, l := range []*lab{old, newer} {
			l.change(func() { l.hung["a:1"] = true })
		}
		old.pool.cursor.Store(uint64(len(all)) - 1) // a next
		begin := time.Now()
		first, err := old.request(t).try()
		// looked at after 1 s, checked, which takes 2 s
		if took := time.Since(begin); first != "a:1" || !errors.Is(err, errRescued) || took != 3*time.Second {
			t.Errorf("%s: %v after %s", first, err, took)
		}
	})
}
