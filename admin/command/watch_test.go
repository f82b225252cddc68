package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Where no terminal is, a line tells of every change, and of nothing else.
func TestChanges(t *testing.T) {
	var out, errs strings.Builder
	shown := &changes{out: &out, errs: &errs}
	a := admin.Upstream{Pool: "p", Address: "a:1", Status: "up", InRotation: true, Operator: "ready", Weight: 1, MaxFailures: 10, NextCheck: after(5)}
	b := a
	b.Address = "b:1"
	at := noon
	look := func(trouble error, rows ...admin.Upstream) {
		if err := shown.show(rows, trouble, at); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
	}
	look(nil, a, b)
	a.NextCheck, a.Requests, a.InFlight, a.Errors = after(7), 5, 2, 1
	look(nil, a, b)
	b.Status, b.InRotation, b.Failures, b.Reason, b.NextCheck = "down", false, 1, "timeout", after(12)
	look(nil, a, b)
	look(errors.New("\x1b[2Jnobody there"))
	look(errors.New("nobody there"))
	look(nil, a, b)
	a.InRotation, a.EjectedUntil = false, after(16)
	look(nil, a, b)
	look(nil, a, b) // only the countdown in the reason moves
	look(nil, a)
	look(nil, a, b)
	equal(t, out.String(), strings.TrimPrefix(`
TIME                 POOL  ADDRESS  STATUS  ROTATION  MODE   WEIGHT  FAILS  NEXT  ACTIVE  REQUESTS  ERRORS  REASON
2026-03-02 12:00:00  p     a:1      up      in        ready  1        0/10    5s       0         0       0
2026-03-02 12:00:00  p     b:1      up      in        ready  1        0/10    5s       0         0       0
2026-03-02 12:00:02  p     b:1      down    out       ready  1        1/10   10s       0         0       0  timeout
2026-03-02 12:00:06  p     a:1      up      out       ready  1        0/10    1s       2         5       1  ejected for 10s
2026-03-02 12:00:08  p     b:1      gone    out       ready  1        1/10     -       0         0       0  timeout
2026-03-02 12:00:09  p     b:1      down    out       ready  1        1/10    3s       0         0       0  timeout
`, "\n"))
	equal(t, errs.String(), "Error: \\x1b[2Jnobody there\n")
}

// On a terminal, the lines take the place of those before.
func TestRedraw(t *testing.T) {
	s := new(screen)
	equal(t, s.redraw([]string{"one", "two"}), "one\x1b[K\ntwo\x1b[K\n\x1b[J")
	equal(t, s.redraw([]string{"three"}), "\x1b[2A\rthree\x1b[K\n\x1b[J")
	equal(t, s.redraw([]string{"four"}), "\x1b[1A\rfour\x1b[K\n\x1b[J")
}
