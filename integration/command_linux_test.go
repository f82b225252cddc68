package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal of that size.
func openTerminal(t testing.TB, columns, lines uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// On a terminal, no line is longer than it, --watch redraws in place, and
// Ctrl-C ends it.
func TestCommandOnTerminal(t *testing.T) {
	t.Parallel()
	well, gone := newBackend(t, nil, nil), refusing(t)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+gone, "health_interval 1h")))
	c.waitStatus(t, "up", well.addr)
	c.waitStatus(t, "down", gone)
	user, program := openTerminal(t, 80, 24)
	shown := new(logBuffer)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			if err != nil {
				return
			}
			_, _ = shown.Write(buf[:n])
		}
	}()

	cmd := c.command(t, "upstreams")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reason is shown", func() bool {
		return strings.Contains(shown.String(), "refused") || strings.Contains(shown.String(), "…")
	})
	for line := range strings.Lines(shown.String()) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}

	cmd = c.command(t, "upstreams", "--watch")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	// two upstreams, a head and a last line
	eventually(t, "it redraws", func() bool { return strings.Count(shown.String(), "\x1b[4A\r") >= 2 })
	if _, err := user.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %q", err, shown)
	}
}
