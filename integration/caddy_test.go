package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// patience is how long the tests wait for something that has to come.
const patience = 20 * time.Second

// freeAddr returns an address on loopback that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	ln := listenStable(t)
	_ = ln.Close()
	return ln.Addr().String()
}

// caddyProcess is a Caddy under test.
type caddyProcess struct {
	admin string // address of the admin endpoint
	dir   string // its working directory
	cmd   *exec.Cmd
	log   *logBuffer
}

// startCaddy starts Caddy with a Caddyfile that has the sites and global
// options given, and waits until it has loaded it. It is stopped, and its log
// searched for panics and races, at the end of the test.
func startCaddy(t testing.TB, sites string, global ...string) *caddyProcess {
	t.Helper()
	c := newCaddy(t)
	c.start(t, "run", "--adapter", "caddyfile", "--config", c.write(t, sites, global...))
	return c
}

// newCaddy returns a Caddy that has not been started.
func newCaddy(t testing.TB) *caddyProcess {
	t.Helper()
	return &caddyProcess{admin: freeAddr(t), dir: t.TempDir(), log: new(logBuffer)}
}

// caddyfile returns a whole Caddyfile with the sites and global options.
func (c *caddyProcess) caddyfile(sites string, global ...string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\t%s\n}\n%s\n",
		c.admin, strings.Join(global, "\n\t"), sites)
}

func (c *caddyProcess) write(t testing.TB, sites string, global ...string) string {
	t.Helper()
	path := filepath.Join(c.dir, "Caddyfile")
	if err := os.WriteFile(path, []byte(c.caddyfile(sites, global...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command returns a caddy command in the environment of c.
func (c *caddyProcess) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(caddyBinary(t), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(),
		"XDG_DATA_HOME="+filepath.Join(c.dir, "data"),
		"XDG_CONFIG_HOME="+filepath.Join(c.dir, "config"),
		"CADDY_ADMIN="+c.admin,
		"GORACE=halt_on_error=0",
	)
	return cmd
}

// start runs caddy with the arguments and waits until its config is loaded.
func (c *caddyProcess) start(t testing.TB, args ...string) {
	t.Helper()
	c.cmd = c.command(t, args...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t) })
	eventually(t, "caddy is serving", func() bool {
		return strings.Contains(c.log.String(), "serving initial configuration")
	})
}

// withoutKnownRace returns the log without reports of one race in Caddy's own
// proxy: between reading a request body and closing it, when an upstream resets
// an HTTP/2 stream.
func withoutKnownRace(log string) string {
	const edge = "==================\n"
	reports := strings.Split(log, edge)
	return strings.Join(slices.DeleteFunc(reports, func(report string) bool {
		return strings.Contains(report, "WARNING: DATA RACE") && strings.Contains(report, "(*bodyNopCloserIfNotRead).Close()")
	}), edge)
}

// stop ends Caddy and looks at what it left in the log.
func (c *caddyProcess) stop(t testing.TB) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	if !timer.Stop() {
		t.Error("caddy did not stop by itself")
	}
	text := c.log.String()
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "panicked"} {
		if strings.Contains(withoutKnownRace(text), bad) {
			t.Errorf("caddy's log has %q", bad)
		}
	}
	if t.Failed() {
		t.Logf("caddy's log:\n%s", text)
	}
}

// api calls the admin API and returns status and body.
func (c *caddyProcess) api(t testing.TB, method, path string) (int, []byte) {
	t.Helper()
	resp, body, err := c.request(method, path, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, []byte(body)
}

// upstreams returns what the admin API shows.
func (c *caddyProcess) upstreams(t testing.TB) []admin.Upstream {
	t.Helper()
	status, body := c.api(t, http.MethodGet, "/load_balance/upstreams")
	var shown []admin.Upstream
	if err := json.Unmarshal(body, &shown); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	return shown
}

// upstream returns what the admin API shows of an address.
func (c *caddyProcess) upstream(t testing.TB, address string) admin.Upstream {
	t.Helper()
	for _, u := range c.upstreams(t) {
		if u.Address == address {
			return u
		}
	}
	t.Fatalf("no upstream %s", address)
	return admin.Upstream{}
}

// waitStatus waits until the upstreams have the status.
func (c *caddyProcess) waitStatus(t testing.TB, status string, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		eventually(t, address+" is "+status, func() bool { return settled(c.upstream(t, address), status) })
	}
}

// settled reports whether a row has that status and, if it is up, requests go
// there, unless something else keeps them away.
func settled(row admin.Upstream, status string) bool {
	return row.Status == status &&
		(status != "up" || row.InRotation || row.Operator != "ready" || row.EjectedUntil != nil || row.Weight == 0)
}

// goroutines returns how many goroutines Caddy has.
func (c *caddyProcess) goroutines(t testing.TB) int {
	t.Helper()
	_, body := c.api(t, http.MethodGet, "/debug/pprof/goroutine?debug=1")
	var n int
	if _, err := fmt.Sscanf(string(body), "goroutine profile: total %d", &n); err != nil {
		t.Fatalf("%v: %.100s", err, body)
	}
	return n
}

// logged returns the log lines of load_balance with the message.
func (c *caddyProcess) logged(message string) []map[string]any {
	var lines []map[string]any
	for line := range strings.Lines(c.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
			lines = append(lines, fields)
		}
	}
	return lines
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

// within waits until the condition holds, but no longer than that.
func within(t testing.TB, most time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", most, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// logBuffer collects the output of a process.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
