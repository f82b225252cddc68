package upstreams

import (
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
