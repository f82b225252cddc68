package upstreams

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// backup makes the upstreams from that one on backups.
func backup(from int) func(*PoolConfig) {
	return func(cfg *PoolConfig) {
		for i := from; i < len(cfg.Upstreams); i++ {
			cfg.Upstreams[i].Backup = true
		}
	}
}

func TestBackupsServeWhileNoPrimaryIsInRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, backup(2))
		l.start()
		synctest.Wait()
		expect := func(when, want string) {
			t.Helper()
			if got := fmt.Sprint(l.picks(t, 100)); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		expect("all up", "map[a:1:50 b:1:50]")
		l.set(true, "a:1")
		time.Sleep(6 * time.Second)
		expect("one primary", "map[b:1:100]")
		l.set(true, "b:1")
		time.Sleep(6 * time.Second)
		expect("no primary", "map[c:1:50 d:1:50]")
		l.set(false, "a:1")
		time.Sleep(time.Minute)
		expect("a primary again", "map[a:1:100]")
	})
}

// A request that has tried all primaries goes on to the backups before
// anybody knows that the primaries are down.
func TestRetriesGoOnToBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, backup(2))
		l.start()
		synctest.Wait()
		l.set(true, "a:1", "b:1")
		l.slowDown(time.Millisecond) // so that no check ends before the last retry
		r := l.request(t)
		var tried string
		for range 5 {
			address, err := r.try()
			tried += address[:1]
			if err == nil {
				break
			}
		}
		if tried != "bac" && tried != "bad" {
			t.Errorf("tried %s", tried)
		}
	})
}

// A full primary is not out of rotation: backups do not take its place.
func TestFullPrimariesKeepBackupsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			backup(1)(cfg)
			cfg.Upstreams[0].MaxRequests = 3
		})
		l.start()
		synctest.Wait()
		fill(t, l.pool.places.Load().byAddress["a:1"], 3)
		if address, _ := l.request(t).try(); address != "" {
			t.Errorf("served by %s", address)
		}
	})
}

// fill makes it look as if so many requests to u were under way. Caddy's code
// counts them, where nobody else can.
func fill(t *testing.T, u *upstream, requests int) {
	t.Helper()
	*(*int64)(unsafe.Pointer(u.account.host)) = int64(requests)
	if n := u.account.host.NumRequests(); n != requests {
		t.Fatalf("%d requests under way, not %d: reverseproxy.Host has changed", n, requests)
	}
}

func TestWeightsKeepTheirProportion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) {
			cfg.Upstreams[0].Weight, cfg.Upstreams[1].Weight, cfg.Upstreams[2].Weight = 5, 2, 256
		})
		l.set(true, "c:1")
		l.start()
		synctest.Wait()
		if got := fmt.Sprint(l.picks(t, 800)); got != "map[a:1:500 b:1:200 d:1:100]" {
			t.Errorf("picks %s", got)
		}
	})
}

func TestRampStep(t *testing.T) {
	const slow = 90 * time.Second
	for _, tc := range []struct {
		since, slow time.Duration
		step        int
		left        time.Duration
	}{
		{0, slow, 1, 10 * time.Second},
		{10*time.Second - 1, slow, 1, 1},
		{10 * time.Second, slow, 2, 10 * time.Second},
		{85 * time.Second, slow, 9, 5 * time.Second},
		{90 * time.Second, slow, 10, 0},
		{time.Hour, slow, 10, 0},
		{-time.Second, slow, 1, 11 * time.Second},
		{0, 0, 10, 0},
		{0, 1, 1, 1},
		{99, 100, 9, 1}, // not a multiple of the steps
	} {
		if step, left := rampStep(tc.since, tc.slow); step != tc.step || left != tc.left {
			t.Errorf("%s of %s: step %d, %s left, want %d, %s", tc.since, tc.slow, step, left, tc.step, tc.left)
		}
	}
}

// An upstream that came back gets a tenth of its share, then more and more,
// without a request to push it. Those that start together do not ramp.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(cfg *PoolConfig) { cfg.SlowStart = 90 * time.Second })
		l.set(true, "a:1")
		l.start()
		time.Sleep(5 * time.Second)
		if got := fmt.Sprint(l.picks(t, 300)); got != "map[b:1:100 c:1:100 d:1:100]" {
			t.Errorf("at the start: %s", got)
		}
		l.set(false, "a:1")
		time.Sleep(5*time.Second + time.Millisecond) // its second check
		for step := 1; step <= 10; step++ {
			rot := l.pool.rotation.Load() // of the timer's making
			turns := make(map[string]int)
			for _, u := range rot.turns {
				turns[u.address]++
			}
			if turns["a:1"]*10 != turns["b:1"]*step || turns["b:1"] != turns["d:1"] {
				t.Errorf("step %d: %v", step, turns)
			}
			time.Sleep(10 * time.Second)
		}
		if l.pool.group.Targets()[0].Status() != healthcheck.Up {
			t.Error("not up")
		}
	})
}
