package command

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

func TestStory(t *testing.T) {
	u := admin.Upstream{
		Pool: "web", Address: "10.0.0.2:8080", Status: "down", Operator: "ready", Weight: 1, Failures: 8, MaxFailures: 10,
		Reason: "connection refused", Since: after(-125), NextCheck: after(45), Requests: 120, Errors: 2, InFlight: 1,
		Explanation: &admin.Explanation{
			History: []admin.Past{
				{Check: admin.Check{Time: after(-5), DurationMS: 0.7, Error: "connection refused: dial tcp\x1b[2J"}, Extra: true},
				{Check: admin.Check{Time: after(-35), DurationMS: 5000, Error: "timeout"}, Counted: true},
				{Check: admin.Check{Time: after(-3600), DurationMS: 12.4, OK: true, StatusCode: 204}, Extra: true, Counted: true},
				{Check: admin.Check{Time: after(-86400), OK: true}, Counted: true},
			},
			Forecast: admin.Forecast{Checks: []*time.Time{after(45), after(90)}, RetireAt: after(90)},
		},
	}
	equal(t, story(u, noon), strings.TrimPrefix(`
10.0.0.2:8080 in pool web: down since 11:57:55 (2m5s ago)

  In rotation    no
  Operator mode  ready
  Weight         1
  Failed checks  8 in a row, retired at 10
  Reason         connection refused
  Requests       120 (2 of them without a response), 1 under way
  Next check     12:00:45 (in 45s)

Latest checks:
  11:59:55             5s ago   took 1ms   failed: connection refused: dial tcp\x1b[2J (extra, not counted)
  11:59:25             35s ago  took 5s    failed: timeout
  11:00:00             1h ago   took 12ms  passed: status 204 (extra)
  2026-03-01 12:00:00  24h ago  took 0s    passed

If every check fails from now on:
  12:00:45  in 45s    check 1
  12:01:30  in 1m30s  check 2, and retired
`, "\n"))
}

func TestStoryOfOneWithoutChecks(t *testing.T) {
	u := admin.Upstream{
		Pool: "\x1b[2J", Address: "{host}", Status: "up", InRotation: true, Operator: "maint", Weight: 0, Backup: true,
		Reason: "unchecked", Explanation: new(admin.Explanation),
	}
	equal(t, story(u, noon), strings.TrimPrefix(`
{host} in pool \x1b[2J: up

  In rotation    yes
  Operator mode  maint
  Weight         0 backup
  Failed checks  0 in a row, never retired for it
  Reason         unchecked
  Requests       0 (0 of them without a response), 0 under way
  Next check     not planned

No check has had a result yet.

No check is planned.
`, "\n"))
}

// What stands below a forecast that does not end in retirement.
func TestForecastWithoutRetirement(t *testing.T) {
	checks := []*time.Time{after(45), after(90)}
	for _, tt := range []struct {
		failures, most int
		end            string
	}{
		{8, 10, "not retired, because the pool has no other in rotation\n"},
		{7, 10, "check 2\n  and so on\n"},
		{8, 0, "check 2\n  and so on\n"},
	} {
		var b strings.Builder
		tellForecast(&b, admin.Upstream{
			Failures: tt.failures, MaxFailures: tt.most,
			Explanation: &admin.Explanation{Forecast: admin.Forecast{Checks: checks}},
		}, noon)
		if !strings.HasSuffix(b.String(), tt.end) {
			t.Errorf("%d of %d: got %q, want %q at the end", tt.failures, tt.most, b.String(), tt.end)
		}
	}
}

func TestStoryOfARetiredOne(t *testing.T) {
	u := admin.Upstream{Pool: "p", Address: "a", Status: "retired", NextCheck: after(300), Explanation: new(admin.Explanation)}
	if text := story(u, noon); !strings.Contains(text, "  Readmission    12:05:00 (in 5m)\n") {
		t.Errorf("got %s", text)
	}
}
