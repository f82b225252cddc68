package command

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)

// after returns the time so many seconds after noon.
func after(seconds float64) *time.Time {
	at := noon.Add(time.Duration(seconds * float64(time.Second)))
	return &at
}

// zoo has an upstream of every kind.
func zoo() []admin.Upstream {
	up := admin.Upstream{
		Pool: "web", Address: "10.0.0.1:8080", Status: "up", InRotation: true, Operator: "ready", Weight: 1,
		MaxFailures: 10, NextCheck: after(4.2), InFlight: 12, Requests: 123456, Errors: 7,
	}
	down := admin.Upstream{
		Pool: "web", Address: "10.0.0.2:8080", Status: "down", Operator: "ready", Weight: 3, Failures: 3,
		MaxFailures: 10, NextCheck: after(20), Reason: "connection refused",
	}
	retired := admin.Upstream{
		Pool: "web", Address: "10.0.0.3:8080", Status: "retired", Operator: "ready", Weight: 1, Failures: 10,
		MaxFailures: 10, NextCheck: after(299), Reason: "certificate signed by unknown authority",
	}
	drained := up
	drained.Address, drained.Operator, drained.InRotation, drained.Backup = "10.0.0.4:8080", "drain", false, true
	ejected := up
	ejected.Address, ejected.InRotation, ejected.EjectedUntil = "10.0.0.5:8080", false, after(9)
	unchecked := admin.Upstream{
		Pool: "{x}", Address: "\x1b[2J{http.request.host}", Status: "up", InRotation: true, Operator: "ready", Weight: 1,
		Reason: "unchecked",
	}
	return []admin.Upstream{up, down, retired, drained, ejected, unchecked}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name string
		room int
		want string
	}{
		{"no terminal", 0, `
POOL  ADDRESS                     STATUS   ROTATION  MODE   WEIGHT    FAILS   NEXT  ACTIVE  REQUESTS  ERRORS  REASON
web   10.0.0.1:8080               up       in        ready  1          0/10     4s      12    123456       7
web   10.0.0.2:8080               down     out       ready  3          3/10    20s       0         0       0  connection refused
web   10.0.0.3:8080               retired  out       ready  1         10/10  4m59s       0         0       0  certificate signed by unknown authority
web   10.0.0.4:8080               up       out       drain  1 backup   0/10     4s      12    123456       7
web   10.0.0.5:8080               up       out       ready  1          0/10     4s      12    123456       7  ejected for 9s
{x}   \x1b[2J{http.request.host}  up       in        ready  1             0      -       0         0       0  unchecked`},
		{"120 columns", 120, `
POOL  ADDRESS                     STATUS   ROTATION  MODE   WEIGHT    FAILS   NEXT  ACTIVE  ERRORS  REASON
web   10.0.0.1:8080               up       in        ready  1          0/10     4s      12       7
web   10.0.0.2:8080               down     out       ready  3          3/10    20s       0       0  connection refused
web   10.0.0.3:8080               retired  out       ready  1         10/10  4m59s       0       0  certificate signed …
web   10.0.0.4:8080               up       out       drain  1 backup   0/10     4s      12       7
web   10.0.0.5:8080               up       out       ready  1          0/10     4s      12       7  ejected for 9s
{x}   \x1b[2J{http.request.host}  up       in        ready  1             0      -       0       0  unchecked`},
		{"80 columns", 80, `
POOL  ADDRESS                     STATUS   MODE   FAILS   NEXT  REASON
web   10.0.0.1:8080               up       ready   0/10     4s
web   10.0.0.2:8080               down     ready   3/10    20s  connection refu…
web   10.0.0.3:8080               retired  ready  10/10  4m59s  certificate sig…
web   10.0.0.4:8080               up       drain   0/10     4s
web   10.0.0.5:8080               up       ready   0/10     4s  ejected for 9s
{x}   \x1b[2J{http.request.host}  up       ready      0      -  unchecked`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := table(zoo(), noon, tt.room)
			equal(t, strings.Join(lines, "\n"), strings.TrimPrefix(tt.want, "\n"))
			for _, line := range lines {
				if tt.room > 0 && width(line) > tt.room {
					t.Errorf("%d columns: %s", width(line), line)
				}
			}
		})
	}
}

func TestTableOfNothing(t *testing.T) {
	equal(t, strings.Join(table(nil, noon, 0), "\n"), "POOL  ADDRESS  STATUS  ROTATION  MODE  WEIGHT  FAILS  NEXT  ACTIVE  REQUESTS  ERRORS  REASON")
}

// However narrow the terminal is, no line is longer.
func TestTableNarrow(t *testing.T) {
	for room := 1; room < 160; room++ {
		for _, line := range table(zoo(), noon, room) {
			if width(line) > room {
				t.Fatalf("%d columns: %s", room, line)
			}
		}
	}
}

func TestReason(t *testing.T) {
	for _, tt := range []struct {
		until  *time.Time
		reason string
		want   string
	}{
		{nil, "", ""},
		{nil, "timeout", "timeout"},
		{after(60), "", "ejected for 1m"},
		{after(60), "ejected: timeout", "ejected for 1m: timeout"},
		{after(-1), "", "ejected"},
		{after(0), "ejected: status 503", "ejected: status 503"},
	} {
		if got := reason(admin.Upstream{EjectedUntil: tt.until, Reason: tt.reason}, noon); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
