package integration

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// quickstartCommand is the README's first command.
const quickstartCommand = "go run ./cmd/caddy run --config examples/quickstart/Caddyfile"

// step is a command of the README's walk through the quickstart, with what
// the reader is told to see after it.
type step struct {
	command string
	see     func(t *testing.T, q *quickstart, answer string)
}

var walk = []step{
	{"curl localhost:8080", func(t *testing.T, q *quickstart, answer string) {
		if !strings.HasPrefix(answer, "hello from backend ") {
			t.Errorf("answer %q", answer)
		}
		q.turns(t, 1, 2, 3)
	}},
	{"touch sick-2", func(t *testing.T, q *quickstart, _ string) {
		q.waitStatus(t, "down", q.backend(2))
		var lines []map[string]any
		eventually(t, "it is logged", func() bool { lines = q.logged("upstream is down"); return len(lines) > 0 })
		if len(lines) != 1 || lines[0]["level"] != "warn" || lines[0]["reason"] != "status 503" || lines[0]["pool"] != "demo" {
			t.Errorf("log lines %v", lines)
		}
		q.turns(t, 1, 3)
	}},
	{`curl "localhost:2019/load_balance/upstreams?upstream=localhost:9002"`, func(t *testing.T, _ *quickstart, answer string) {
		for _, part := range []string{`"status":"down"`, `"failures":1`, `"delay_ms":10000`, `"reason":"status 503"`} {
			if !strings.Contains(answer, part) {
				t.Errorf("no %s in %s", part, answer)
			}
		}
	}},
	{"rm sick-2", func(*testing.T, *quickstart, string) {}},
	{`curl -X POST "localhost:2019/load_balance/check?upstream=localhost:9002"`, func(t *testing.T, q *quickstart, _ string) {
		q.waitStatus(t, "up", q.backend(2))
		q.turns(t, 1, 2, 3)
	}},
	{`curl -X POST "localhost:2019/load_balance/readmit?upstream=localhost:9002"`, func(t *testing.T, _ *quickstart, answer string) {
		if !strings.Contains(answer, `"status":"up"`) {
			t.Errorf("answer %s", answer)
		}
	}},
}

// quickstart is the README's demo, on free ports.
type quickstart struct {
	*caddyProcess
	root string
	env  map[string]string
}

func (q *quickstart) backend(i int) string {
	return "localhost:" + q.env["BACKEND"+string(rune('0'+i))]
}

// turns looks that those backends, and no others, answer in turn.
func (q *quickstart) turns(t *testing.T, backends ...int) {
	t.Helper()
	eventually(t, "the rotation has changed", func() bool {
		in := 0
		for _, u := range q.upstreams(t) {
			if u.InRotation {
				in++
			}
		}
		return in == len(backends)
	})
	seen := make(map[string]int)
	for range 4 * len(backends) {
		_, body := get(t, "http://127.0.0.1:"+q.env["PORT"])
		seen[body]++
	}
	for _, i := range backends {
		if seen["hello from backend "+string(rune('0'+i))+"\n"] != 4 {
			t.Errorf("answers %v, want those of %v", seen, backends)
		}
	}
}

// run does what a command of the walk does, on the test's ports.
func (q *quickstart) run(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(strings.NewReplacer(
		`"`, "", "localhost:8080", "127.0.0.1:"+q.env["PORT"], "localhost:2019", q.admin, "localhost:9002", q.backend(2),
	).Replace(command))
	switch words[0] {
	case "touch":
		if err := os.WriteFile(filepath.Join(q.root, words[1]), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	case "rm":
		if err := os.Remove(filepath.Join(q.root, words[1])); err != nil {
			t.Fatal(err)
		}
	case "curl":
		method := http.MethodGet
		if slices.Contains(words, "POST") {
			method = http.MethodPost
		}
		req, err := http.NewRequest(method, "http://"+words[len(words)-1], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", command, resp.StatusCode)
		}
		return string(body)
	default:
		t.Fatalf("cannot run %q", command)
	}
	return ""
}

// TestQuickstart runs the README's first command as it is, but on free ports,
// and then the walk. With a given binary it runs that instead.
func TestQuickstart(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	q := &quickstart{caddyProcess: newCaddy(t), root: root, env: make(map[string]string)}
	words := strings.Fields(quickstartCommand)
	if binary := os.Getenv(binaryEnv); binary != "" {
		words = append([]string{binary}, words[3:]...)
	}
	q.cmd = exec.Command(words[0], words[1:]...)
	q.cmd.Dir = root
	q.cmd.Env = append(os.Environ(), "CADDY_ADMIN="+q.admin,
		"XDG_DATA_HOME="+filepath.Join(q.dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(q.dir, "config"))
	for _, name := range []string{"PORT", "BACKEND1", "BACKEND2", "BACKEND3"} {
		q.env[name] = freeAddr(t)[len("127.0.0.1:"):]
		q.cmd.Env = append(q.cmd.Env, name+"="+q.env[name])
	}
	q.cmd.Stdout, q.cmd.Stderr = q.log, q.log
	q.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(root, "sick-2"))
		_ = syscall.Kill(-q.cmd.Process.Pid, syscall.SIGTERM)
		_ = q.cmd.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", q.log)
		}
	})
	within(t, 10*time.Minute, "caddy is built and serving", func() bool {
		return strings.Contains(q.log.String(), "serving initial configuration")
	})
	q.waitStatus(t, "up", q.backend(1), q.backend(2), q.backend(3))
	if lines := q.logged("upstream is down"); len(lines) != 0 {
		t.Errorf("not up at the first check: %v", lines)
	}
	for _, s := range walk {
		s.see(t, q, q.run(t, s.command))
	}
}
