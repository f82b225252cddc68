package upstreams

import (
	"testing"
	"testing/synctest"
)

// A request that finds nothing in rotation, and goes on when its config has
// been replaced, finds what comes back, also if the newer config checks it in
// another way.
func TestRequestLeftBehindFindsWhatComesBack(t *testing.T) {
	for name, port := range map[string]int{"the same check": 0, "another check": 8081} {
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
					cfg.Check.Port = port
				})
				newer.start()
				old.stop()
				old.pool.Close()
				for _, target := range newer.pool.group.Targets() {
					target.CheckNow()
				}
				old.set(false, all...)
				if in := newer.in(); in != "abcd" {
					t.Fatalf("in rotation: %s", in)
				}
				if address, err := a.try(); address == "" || err != nil {
					t.Errorf("left alone: %q %v", address, err)
				}
			})
		})
	}
}
