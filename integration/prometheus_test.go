package integration

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// toolsEnv makes tests fail that lack a program of others, instead of being
// skipped.
const toolsEnv = "LOADBALANCE_TOOLS"

// tool returns the path of such a program.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv(toolsEnv) != "":
		t.Fatal(err)
	default:
		t.Skipf("%s is not installed (with Debian: apt-get install chromium prometheus)", name)
	}
	return path
}

// prometheus is a Prometheus with a data folder of its own.
type prometheus struct{ addr string }

// startPrometheus starts Prometheus with the files of an example, of which
// prometheus.yml has replacements, pairs of old and new text.
func startPrometheus(t *testing.T, example string, replace ...string) *prometheus {
	t.Helper()
	binary := tool(t, "prometheus")
	p := &prometheus{addr: freeAddr(t)}
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yml", "alerts.yml"} {
		text := readTextFile(t, filepath.Join(example, name))
		for i := 0; i < len(replace) && name == "prometheus.yml"; i += 2 {
			if !strings.Contains(text, replace[i]) {
				t.Fatalf("%s has no %q", name, replace[i])
			}
			text = strings.ReplaceAll(text, replace[i], replace[i+1])
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", p.addr)
	cmd.Dir = dir
	log := new(logBuffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of prometheus:\n%s", log)
		}
	})
	eventually(t, "prometheus is ready", func() bool {
		resp, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// ask asks the API of Prometheus.
func (p *prometheus) ask(t testing.TB, path string, query url.Values, data any) {
	t.Helper()
	resp, err := http.Get("http://" + p.addr + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("%s %v: %v, %s", path, query, err, answer.Error)
	}
}

// query returns the values of a query's results that are numbers.
func (p *prometheus) query(t testing.TB, expr string) []float64 {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.ask(t, "query", url.Values{"query": {expr}}, &data)
	var values []float64
	for _, result := range data.Result {
		text, _ := result.Value[1].(string)
		if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) {
			values = append(values, value)
		}
	}
	return values
}

// rule is an alert rule, as Prometheus sees it.
type rule struct {
	Name, Health, LastError, State string
}

// rules returns the alert rules.
func (p *prometheus) rules(t testing.TB) []rule {
	t.Helper()
	var data struct {
		Groups []struct{ Rules []rule }
	}
	p.ask(t, "rules", nil, &data)
	var all []rule
	for _, group := range data.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// state returns the state of an alert: inactive, pending or firing.
func (p *prometheus) state(t testing.TB, alert string) string {
	t.Helper()
	rules := p.rules(t)
	i := slices.IndexFunc(rules, func(r rule) bool { return r.Name == alert })
	if i < 0 {
		t.Fatalf("no alert %s", alert)
	}
	return rules[i].State
}
