package command

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*healthcheck.Settings)
		want string
	}{
		{"defaults", func(*healthcheck.Settings) {}, `
CHECK  DELAY  AFTER  STATUS
1      -      0s     down
2      10s    10s    down
3      15s    25s    down
4      20s    45s    down
5      25s    1m10s  down
6      30s    1m40s  down
7      35s    2m15s  down
8      40s    2m55s  down
9      45s    3m40s  down
10     50s    4m30s  retired

The delay does not become the longest one, 1m: the upstream is retired before that.
The last upstream of a pool in rotation is not retired, but checked every 1m.
Jitter and the time that checks take are left out.
`},
		{"never", func(set *healthcheck.Settings) {
			set.MaxFailures, set.Increment, set.MaxInterval = 0, 30*time.Second, 2*time.Minute
		}, `
CHECK  DELAY  AFTER   STATUS
1      -      0s      down
2      35s    35s     down
3      1m5s   1m40s   down
4      1m35s  3m15s   down
5      2m     5m15s   down
6      2m     7m15s   down
7      2m     9m15s   down
8      2m     11m15s  down
9      2m     13m15s  down
10     2m     15m15s  down
11     2m     17m15s  down
12     2m     19m15s  down
13     2m     21m15s  down
14     2m     23m15s  down
15     2m     25m15s  down
16     2m     27m15s  down
17     2m     29m15s  down
18     2m     31m15s  down
19     2m     33m15s  down
20     2m     35m15s  down
...

Warning: the upstream is never retired, however long it fails, but checked every 2m.
Jitter and the time that checks take are left out.
`},
		{"retired when it is down", func(set *healthcheck.Settings) { set.MaxFailures, set.Fails = 2, 4 }, `
CHECK  DELAY  AFTER  STATUS
1      -      0s     up
2      5s     5s     up
3      5s     10s    up
4      5s     15s    retired

Warning: the maximum of 2 failures comes too early, an upstream is not down before 4.
The delay does not become the longest one, 1m: the upstream is retired before that.
The last upstream of a pool in rotation is not retired, but checked every 1m.
Jitter and the time that checks take are left out.
`},
		{"constant", func(set *healthcheck.Settings) { set.MaxFailures, set.Increment = 2, 0 }, `
CHECK  DELAY  AFTER  STATUS
1      -      0s     down
2      5s     5s     retired

The delay does not grow: it never becomes the longest one, 1m.
The last upstream of a pool in rotation is not retired, but checked every 1m.
Jitter and the time that checks take are left out.
`},
		{"at once", func(set *healthcheck.Settings) { set.MaxFailures = 1 }, `
CHECK  DELAY  AFTER  STATUS
1      -      0s     retired

The delay does not become the longest one, 1m: the upstream is retired before that.
The last upstream of a pool in rotation is not retired, but checked every 1m.
Jitter and the time that checks take are left out.
`},
		{"saturated", func(set *healthcheck.Settings) {
			set.MaxFailures, set.Increment, set.MaxInterval = 4, math.MaxInt64/2, math.MaxInt64
		}, `
CHECK  DELAY           AFTER           STATUS
1      -               0s              down
2      1281023h53m43s  1281023h53m43s  down
3      292 years       292 years       down
4      292 years       292 years       retired

The last upstream of a pool in rotation is not retired, but checked every 292 years.
Jitter and the time that checks take are left out.
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := healthcheck.Config{}
			set := config.Settings()
			tt.set(&set)
			equal(t, schedule(set), strings.TrimPrefix(tt.want, "\n"))
		})
	}
}

// Of a long schedule, the start and the end are listed.
func TestScheduleLong(t *testing.T) {
	config := healthcheck.Config{MaxFailures: mostCount}
	lines := strings.Split(schedule(config.Settings()), "\n")
	if len(lines) != 1+rungsShown+2+4 {
		t.Fatalf("%d lines", len(lines))
	}
	// 10 delays below one minute, 325 s in all, then one minute each
	for i, want := range map[int]string{
		rungsShown:     "20       1m     14m25s        down",
		rungsShown + 1: "...",
		rungsShown + 2: "1000000  1m     16666h34m25s  retired",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: got %q, want %q", i, lines[i], want)
		}
	}
}
