package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Tests of the command `caddy upstreams` against a running Caddy. The default
// admin endpoint of the commands is that of the Caddy under test.

// run runs a caddy command and returns what it printed, and its exit code.
func (c *caddyProcess) run(t testing.TB, args ...string) (out, errs string, code int) {
	t.Helper()
	return runCommand(t, c.command(t, args...))
}

func runCommand(t testing.TB, cmd *exec.Cmd) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// succeed runs a caddy command that must succeed and returns what it printed.
func (c *caddyProcess) succeed(t testing.TB, args ...string) string {
	t.Helper()
	out, errs, code := c.run(t, args...)
	if code != 0 {
		t.Fatalf("caddy %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// fail runs a caddy command that must fail with that text.
func (c *caddyProcess) fail(t testing.TB, text string, args ...string) {
	t.Helper()
	out, errs, code := c.run(t, args...)
	if code != 1 || !strings.Contains(errs, "Error: ") || !strings.Contains(errs, text) {
		t.Errorf("caddy %q: exit code %d, printed %q and %q, want 1 and %q", args, code, out, errs, text)
	}
}

// A background command is one that goes on for a while.
type background struct {
	cmd       *exec.Cmd
	out, errs *logBuffer
}

func (c *caddyProcess) background(t testing.TB, args ...string) *background {
	t.Helper()
	b := &background{cmd: c.command(t, args...), out: new(logBuffer), errs: new(logBuffer)}
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.errs
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.cmd.Process.Kill() })
	return b
}

// prints waits until it has printed the text.
func (b *background) prints(t testing.TB, text string) {
	t.Helper()
	eventually(t, "it prints "+text, func() bool { return strings.Contains(b.out.String(), text) })
}

// ends waits until it has ended.
func (b *background) ends(t testing.TB) *os.ProcessState {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = b.cmd.Process.Kill() })
	defer timer.Stop()
	_ = b.cmd.Wait()
	return b.cmd.ProcessState
}

// cells returns the words of every line.
func cells(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

func TestCommandTable(t *testing.T) {
	t.Parallel()
	well, gone := newBackend(t, nil, nil), refusing(t)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(well.addr+" "+gone, "name web", "health_interval 1h", "health_increment 0", "health_jitter 0"))+
		site(freeAddr(t), "name api\nhealth_interval 1h\nhealth_jitter 0\nhealth_max_failures never\nupstream "+well.addr+" {\nweight 3\nbackup\n}"))
	c.waitInRotation(t, well.addr)
	c.waitStatus(t, "down", gone)
	eventually(t, "all are up", func() bool { return c.row(t, "api").Status == "up" })
	get(t, "http://"+addr)
	c.waitIdle(t)

	head := strings.Fields("POOL ADDRESS STATUS ROTATION MODE WEIGHT FAILS NEXT ACTIVE REQUESTS ERRORS REASON")
	api := strings.Fields("api " + well.addr + " up in ready 3 backup 0 1h 0 0 0")
	web := strings.Fields("web " + well.addr + " up in ready 1 0/10 1h 0 1 0")
	sick := strings.Fields("web " + gone + " down out ready 1 1/10 1h 0 0 0 connection refused")
	for _, tt := range []struct {
		args string
		want [][]string
	}{
		{"", [][]string{head, api, web, sick}},
		{"--pool web", [][]string{head, web, sick}},
		{"--upstream " + well.addr, [][]string{head, api, web}},
		{"--upstream=" + well.addr + " --pool=api", [][]string{head, api}},
	} {
		out := c.succeed(t, append([]string{"upstreams"}, strings.Fields(tt.args)...)...)
		got := cells(out)
		for _, row := range got {
			for i, cell := range row {
				if strings.HasPrefix(cell, "59m") { // by when the command came
					row[i] = "1h"
				}
			}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.args, got, tt.want)
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%q: escapes outside a terminal: %q", tt.args, out)
		}
	}
	c.fail(t, "no such upstream: nix", "upstreams", "--upstream", "nix")
	c.fail(t, "no such upstream: "+gone+" in pool api", "upstreams", "--upstream", gone, "--pool", "api")
	c.fail(t, "no upstream in pool nix", "upstreams", "--pool", "nix")
	c.fail(t, "unknown command", "upstreams", "nix")
	c.fail(t, "[json watch]", "upstreams", "--json", "--watch")
}

// --json prints what the API answers.
func TestCommandJSON(t *testing.T) {
	t.Parallel()
	name := "x \u009b2J\u202e \x1b \""
	well := newBackend(t, nil, nil)
	c := newCaddy(t)
	text, err := json.Marshal(object{"handler": "load_balance", "name": name, "upstreams": []object{{"dial": well.addr}}})
	if err != nil {
		t.Fatal(err)
	}
	c.startHandlers(t, map[string]string{freeAddr(t): string(text)})
	c.succeed(t, "upstreams", "maint", well.addr) // no check moves any time
	for _, args := range [][]string{{"--json"}, {"--json", "--pool", name}} {
		out := c.succeed(t, append([]string{"upstreams"}, args...)...)
		var rows []object
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if want := c.list(t, ""); len(rows) != 1 || !reflect.DeepEqual(rows, want) {
			t.Errorf("%q: got %v, want %v", args, rows, want)
		}
		if strings.ContainsAny(out, "\x1b\u009b\u202e") {
			t.Errorf("%q: unescaped: %q", args, out)
		}
	}
	out, _, code := c.run(t, "upstreams", "--json", "--pool", "nix")
	if strings.TrimSpace(out) != "[]" || code != 1 {
		t.Errorf("no such pool: got %q, exit code %d", out, code)
	}
	for _, args := range [][]string{{}, {"explain", well.addr}, {"check", well.addr}} {
		if out := c.succeed(t, append([]string{"upstreams"}, args...)...); strings.ContainsAny(out, "\x1b\u009b\u202e") || !strings.Contains(out, `x \u009b2J\u202e \x1b "`) {
			t.Errorf("%q: got %q", args, out)
		}
	}
	c.fail(t, `no such upstream: y\x1b`, "upstreams", "check", "y\x1b")
}

// Modes are set, end by themselves or on the operator's word, and are shown in
// the answer.
func TestCommandModes(t *testing.T) {
	t.Parallel()
	a, b := newBackend(t, nil, nil), newBackend(t, nil, nil)
	addr, other := freeAddr(t), freeAddr(t)
	c := launch(t, site(addr, to(addrs(a, b), "name web", "health_interval 20ms", "health_jitter 0"))+
		site(other, to(a.addr, "name api")))
	c.waitStatusIn(t, "web", "up", a.addr, b.addr)
	c.waitStatusIn(t, "api", "up", a.addr)
	want := func(out, pool string, cells ...string) {
		t.Helper()
		for line := range strings.Lines(out) {
			words := strings.Fields(line)
			if words[0] == pool && slices.Equal(words[2:2+len(cells)], cells) {
				return
			}
		}
		t.Errorf("no line of %s with %q: %s", pool, cells, out)
	}

	out := c.succeed(t, "upstreams", "drain", a.addr, "--pool", "web")
	want(out, "web", "up", "out", "drain")
	if strings.Contains(out, "api") {
		t.Errorf("drained in all pools: %s", out)
	}
	requireShares(t, "http://"+addr, 10, b.addr)
	want(c.succeed(t, "upstreams", "ready", a.addr), "web", "up", "in", "ready")
	requireShares(t, "http://"+addr, 10, a.addr, b.addr)

	out = c.succeed(t, "upstreams", "maint", a.addr)
	want(out, "web", "up", "out", "maint")
	want(out, "api", "up", "out", "maint")
	time.Sleep(50 * time.Millisecond) // a check may have been under way
	checks := a.probes.Load()
	time.Sleep(200 * time.Millisecond)
	if n := a.probes.Load() - checks; n != 0 {
		t.Errorf("%d checks in maintenance", n)
	}
	c.succeed(t, "upstreams", "ready", a.addr, "--pool", "api") // unknown, until the check that follows at once
	c.waitStatusIn(t, "api", "up", a.addr)

	started := time.Now()
	want(c.succeed(t, "upstreams", "maint", a.addr, "--pool", "web", "--for", "1s"), "web", "up", "out", "maint")
	eventually(t, "the maintenance ends", func() bool { return c.of(t, "web", a.addr).InRotation })
	if took := time.Since(started); took < time.Second {
		t.Errorf("it took %s", took)
	}

	c.fail(t, "no such upstream: nix", "upstreams", "drain", "nix")
	c.fail(t, "no such upstream: nix", "upstreams", "drain", "nix", "--wait")
	c.fail(t, "no such upstream: "+b.addr+" in pool api", "upstreams", "maint", b.addr, "--pool", "api")
	c.fail(t, "above zero", "upstreams", "drain", a.addr, "--for", "0")
	c.fail(t, "above zero", "upstreams", "drain", a.addr, "--for", "soon")
	c.fail(t, "unknown flag", "upstreams", "ready", a.addr, "--for", "1s")
	c.fail(t, "unknown flag", "upstreams", "check", a.addr, "--wait")
	c.fail(t, "accepts 1 arg(s), received 0", "upstreams", "drain")
	c.fail(t, "accepts 1 arg(s), received 2", "upstreams", "drain", a.addr, b.addr)
	c.fail(t, "is empty", "upstreams", "drain", "")
	if row := c.of(t, "web", a.addr); row.Operator != "ready" {
		t.Errorf("a command that failed changed the mode to %s", row.Operator)
	}
}

func TestCommandCheckAndReadmit(t *testing.T) {
	t.Parallel()
	well := newPatient(t, false)
	gone, fail, pass := newReadmitted(t)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+gone.addr, "health_uri /health", "health_interval 1h", "health_max_failures 1", "health_readmit_after never", "health_timeout 1m")))
	c.waitStatus(t, "up", well.addr)
	fail()
	c.waitStatus(t, "retired", gone.addr)
	if out := c.succeed(t, "upstreams", "explain", gone.addr); !strings.Contains(out, "Readmission    not planned") {
		t.Errorf("got %s", out)
	}

	well.waitChecks(t, 1)
	c.succeed(t, "upstreams", "check", well.addr)
	well.waitChecks(t, 2)

	if out := c.succeed(t, "upstreams", "readmit", gone.addr); !strings.Contains(out, "down") {
		t.Errorf("got %s", out)
	}
	pass()
	c.waitStatus(t, "up", gone.addr)
	c.fail(t, "no such upstream: nix", "upstreams", "readmit", "nix")
	c.fail(t, "no such upstream: nix", "upstreams", "check", "nix")
}

func TestCommandExplain(t *testing.T) {
	t.Parallel()
	well, sick := newPatient(t, false), newPatient(t, true)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+sick.addr, "name web", "health_uri /health", "health_interval 1h", "health_max_interval 2h", "health_increment 1h", "health_jitter 0", "health_max_failures 4"))+
		site(freeAddr(t), to(sick.addr, "name api", "health_uri /health", "health_interval 1h")))
	c.waitStatus(t, "up", well.addr)
	c.waitStatus(t, "down", sick.addr)
	c.succeed(t, "upstreams", "check", sick.addr, "--pool", "web")
	eventually(t, "the extra check is known", func() bool { return c.of(t, "web", sick.addr).LastCheck.Time.After(*c.of(t, "web", sick.addr).Since) })
	out := c.succeed(t, "upstreams", "explain", sick.addr, "--pool", "web")
	for _, want := range []string{
		sick.addr + " in pool web: down since ",
		"Failed checks  1 in a row, retired at 4",
		"Reason         status 503",
		"failed: status 503 (extra, not counted)\n",
		"failed: status 503\n",
		"check 3, and retired\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if strings.Contains(out, "pool api") {
		t.Errorf("another pool is explained: %s", out)
	}
	if out := c.succeed(t, "upstreams", "explain", sick.addr); !strings.Contains(out, "in pool web") || strings.Index(out, "in pool api") != len(sick.addr)+1 {
		t.Errorf("got %s", out)
	}
	c.fail(t, "no such upstream: nix", "upstreams", "explain", "nix")
	c.fail(t, "accepts 1 arg(s)", "upstreams", "explain")
}

// drain --wait returns when the last request is done, over reloads too.
func TestCommandDrainWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newBackend(t, nil, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // lets go what is left of a test that failed
	well := newBackend(t, nil, nil)
	addr := freeAddr(t)
	text := site(addr, to(slow.addr+" "+well.addr, "name web", "lb_policy first"))
	c := launch(t, text)
	c.waitStatus(t, "up", slow.addr, well.addr)
	first, second := inBackground("http://"+addr), inBackground("http://"+addr)
	eventually(t, "the requests are under way", func() bool { return c.upstream(t, slow.addr).InFlight == 2 })

	drain := c.background(t, "upstreams", "drain", slow.addr, "--wait")
	drain.prints(t, slow.addr+": 2 requests under way\n")
	if row := c.upstream(t, slow.addr); row.Operator != "drain" || row.InRotation {
		t.Errorf("got %+v", row)
	}
	if _, body := get(t, "http://"+addr); body != well.addr {
		t.Errorf("served by %s", body)
	}
	release <- struct{}{}
	drain.prints(t, slow.addr+": 1 request under way\n")
	release <- struct{}{}
	if state := drain.ends(t); state.ExitCode() != 0 {
		t.Errorf("exit code %d: %s", state.ExitCode(), drain.errs)
	}
	lines := strings.Split(strings.TrimSpace(drain.out.String()), "\n")
	if last := lines[len(lines)-1]; last != slow.addr+": 0 requests under way" {
		t.Errorf("last line: %q", last)
	}
	<-first
	<-second

	// with nothing under way it returns soon
	if out := c.succeed(t, "upstreams", "drain", slow.addr, "--wait"); out != slow.addr+": 0 requests under way\n" {
		t.Errorf("got %q", out)
	}
}

// Waiting fails when what it waits for cannot come any more.
func TestCommandDrainWaitInVain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newBackend(t, nil, func(http.ResponseWriter, *http.Request) { <-release })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	well := newBackend(t, nil, nil)
	addr := freeAddr(t)
	pool := func(upstreams string) string {
		return site(addr, to(upstreams, "name web", "lb_policy first"))
	}
	c := launch(t, pool(slow.addr+" "+well.addr), "grace_period 100ms")
	c.waitStatus(t, "up", slow.addr, well.addr)
	over := inBackground("http://" + addr)
	eventually(t, "the request is under way", func() bool { return c.upstream(t, slow.addr).InFlight == 1 })

	inVain := func(b *background, want string) {
		t.Helper()
		if state := b.ends(t); state.ExitCode() != 1 || !strings.Contains(b.errs.String(), want) {
			t.Errorf("exit code %d, %s, want %q", state.ExitCode(), b.errs, want)
		}
	}
	inVain(c.background(t, "upstreams", "drain", slow.addr, "--for", "500ms", "--wait"), "in pool web is no longer in mode drain, but ready")

	// an interrupt ends it as if it was not caught, so that a script ends too
	drain := c.background(t, "upstreams", "drain", slow.addr, "--wait")
	drain.prints(t, "1 request under way")
	_ = drain.cmd.Process.Signal(os.Interrupt)
	if status := drain.ends(t).Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", status)
	}
	if row := c.upstream(t, slow.addr); row.Operator != "drain" {
		t.Errorf("the mode is %s", row.Operator)
	}

	drain = c.background(t, "upstreams", "drain", slow.addr, "--wait")
	drain.prints(t, "1 request under way")
	if err := c.load("text/caddyfile", c.caddyfile(pool(well.addr), "grace_period 100ms")); err != nil {
		t.Fatal(err)
	}
	inVain(drain, "upstream "+slow.addr+" is gone from pool web")
	free()
	<-over
}

// Without a terminal, --watch prints a line for every change, over reloads,
// and an interrupt is its regular end.
func TestCommandWatch(t *testing.T) {
	t.Parallel()
	p, well := newPatient(t, false), newBackend(t, nil, nil)
	text := site(freeAddr(t), to(p.addr+" "+well.addr, "name web", "health_uri /health", "health_interval 50ms", "health_max_failures never"))
	c := launch(t, text)
	c.waitStatus(t, "up", p.addr, well.addr)
	all, one := c.background(t, "upstreams", "--watch"), c.background(t, "upstreams", "-w", "--upstream", well.addr)
	all.prints(t, "web   "+p.addr+"  up ")
	one.prints(t, "web   "+well.addr+"  up ")
	p.sick.Store(true)
	all.prints(t, "web   "+p.addr+"  down ")
	if err := c.load("text/caddyfile", c.caddyfile(text, "grace_period 1s")); err != nil {
		t.Fatal(err)
	}
	c.succeed(t, "upstreams", "drain", well.addr)
	one.prints(t, " drain ")
	time.Sleep(1100 * time.Millisecond) // nothing new in the next look
	for _, b := range []*background{all, one} {
		_ = b.cmd.Process.Signal(os.Interrupt)
		if state := b.ends(t); state.ExitCode() != 0 {
			t.Errorf("it ended with %v: %s", state, b.errs)
		}
	}
	rows := cells(one.out.String())
	if len(rows) != 3 || rows[0][0] != "TIME" || rows[1][3] != well.addr || rows[2][6] != "drain" {
		t.Errorf("got %s", one.out)
	}
	if strings.Contains(all.out.String(), "\x1b") {
		t.Errorf("escapes outside a terminal: %q", all.out)
	}
}

// The endpoint is found as other commands of Caddy find it, and if nothing
// answers there, the command fails.
func TestCommandEndpoint(t *testing.T) {
	t.Parallel()
	well := newBackend(t, nil, nil)
	c := launch(t, site(freeAddr(t), to(well.addr, "name web")))
	c.waitStatus(t, "up", well.addr)

	elsewhere := newCaddy(t) // its default endpoint answers to nobody
	config := filepath.Join(c.dir, "Caddyfile")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(elsewhere.dir, "odd.conf")
	if err := os.WriteFile(odd, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--address", c.admin},
		{"--config", config},
		{"-c", config},
		{"--config", odd, "--adapter", "caddyfile"},
		{"-c", odd, "-a", "caddyfile"},
		{"--address", c.admin, "--config", "nix"},
	} {
		if out := elsewhere.succeed(t, append([]string{"upstreams"}, args...)...); !strings.Contains(out, well.addr) {
			t.Errorf("%q: got %q", args, out)
		}
		elsewhere.succeed(t, append([]string{"upstreams", "check", well.addr}, args...)...)
		elsewhere.succeed(t, append([]string{"upstreams", "explain", well.addr}, args...)...)
	}
	for _, args := range [][]string{{}, {"--json"}, {"--watch"}, {"drain", "x", "--wait"}, {"ready", "x"}, {"check", "x"}, {"explain", "x"}} {
		elsewhere.fail(t, "connection refused", append([]string{"upstreams"}, args...)...)
	}
	elsewhere.fail(t, "nix", "upstreams", "--config", "nix")

	// something else answers
	server := newBackend(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/load_balance/check" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("\x1b[2Jhello"))
	})
	c.fail(t, "no answer of the load_balance admin API", "upstreams", "--address", server.addr)
	c.fail(t, "no answer of the load_balance admin API", "upstreams", "--address", server.addr, "--json")
	c.fail(t, "runs without load_balance", "upstreams", "check", "x", "--address", server.addr)
}

// ladder needs no running Caddy.
func TestCommandLadder(t *testing.T) {
	t.Parallel()
	c := newCaddy(t)
	if out := c.succeed(t, "upstreams", "ladder"); !strings.Contains(out, "\n10     50s    4m30s  retired\n") {
		t.Errorf("got %s", out)
	}
	out := c.succeed(t, "upstreams", "ladder", "--interval", "2s", "--increment", "1s", "--max-interval", "4s", "--max-failures", "5", "--fails", "2")
	want := `CHECK  DELAY  AFTER  STATUS
1      -      0s     up
2      2s     2s     down
3      3s     5s     down
4      4s     9s     down
5      4s     13s    retired
`
	if !strings.HasPrefix(out, want) {
		t.Errorf("got %s", out)
	}
	if out := c.succeed(t, "upstreams", "ladder", "--max-failures", "never"); !strings.Contains(out, "Warning: the upstream is never retired") {
		t.Errorf("got %s", out)
	}
	for _, tt := range [][]string{
		{"--interval", "0", "above zero"},
		{"--interval", "-1s", "above zero"},
		{"--interval", "5", "above zero"},
		{"--increment", "-1s", "zero or more"},
		{"--max-interval", "0", "above zero"},
		{"--max-interval", "1s", "below the interval"},
		{"--max-failures", "0", "or never"},
		{"--max-failures", "often", "or never"},
		{"--fails", "0", "from 1 to"},
		{"--fails", "never", "from 1 to"},
		{"--fails", "2", "unknown command", "surplus"},
	} {
		args := append([]string{"upstreams", "ladder", tt[0], tt[1]}, tt[3:]...)
		c.fail(t, tt[2], args...)
	}
}

func TestCommandHelp(t *testing.T) {
	t.Parallel()
	c := newCaddy(t)
	if out := c.succeed(t, "help"); !strings.Contains(out, "\n  upstreams ") {
		t.Errorf("got %s", out)
	}
	for command, want := range map[string][]string{
		"":        {"ROTATION", "exit code", "--pool", "--upstream", "--json", "--watch", "--address", "--config", "--adapter", "drain", "ladder"},
		"drain":   {"exit code", "--for", "--wait", "--pool", "--address"},
		"maint":   {"exit code", "--for", "--wait"},
		"ready":   {"exit code", "--pool"},
		"readmit": {"exit code", "--pool"},
		"check":   {"exit code", "--pool"},
		"explain": {"exit code", "--pool"},
		"ladder":  {"exit code", "--interval", "--increment", "--max-interval", "--max-failures", "--fails"},
	} {
		out := c.succeed(t, append(append([]string{"upstreams"}, strings.Fields(command)...), "--help")...)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in %s", command, text, out)
			}
		}
	}
}

// Shells complete subcommands, and what the running Caddy knows.
func TestCommandCompletion(t *testing.T) {
	t.Parallel()
	a, b := newBackend(t, nil, nil), newBackend(t, nil, nil)
	c := launch(t, site(freeAddr(t), to(addrs(a, b), "name web"))+site(freeAddr(t), to(a.addr, "name api")))
	if out := c.succeed(t, "completion", "bash"); !strings.Contains(out, "_caddy_upstreams_drain()") {
		t.Error("no completion of the subcommands")
	}
	both := []string{a.addr, b.addr}
	slices.Sort(both)
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"drain", ""}, both},
		{[]string{"explain", "--pool", "api", ""}, both},
		{[]string{"drain", a.addr, ""}, nil},
		{[]string{"--upstream", ""}, both},
		{[]string{"--pool", ""}, []string{"api", "web"}},
		{[]string{"drain", "--address", url.QueryEscape(refusing(t)), ""}, nil},
	} {
		out := c.succeed(t, append([]string{"__complete", "upstreams"}, tt.args...)...)
		lines := strings.Fields(out)
		if got := lines[:len(lines)-1]; !slices.Equal(got, tt.want) { // a directive stands last
			t.Errorf("%q: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
