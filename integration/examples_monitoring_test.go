package integration

import (
	"encoding/json"
	"math"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// monitoring is the folder of the example.
var monitoring = filepath.Join("..", "examples", "monitoring")

func TestMonitoringAlerts(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests := monitoringText(t, "alerts_test.yml")
	for _, alert := range alertNames(t) {
		if !strings.Contains(tests, "alertname: "+alert+"\n        exp_alerts:") {
			t.Errorf("no test lets %s fire", alert)
		}
	}
}

func alertNames(t testing.TB) (names []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(monitoringText(t, "alerts.yml"), -1) {
		names = append(names, found[1])
	}
	return names
}

// dashboard is what matters here of a dashboard of Grafana.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
}

func readDashboard(t testing.TB) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(monitoringText(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Panels have ids of their own, and do not lie on each other.
func TestMonitoringDashboardLayout(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	taken := make(map[[2]int]string)
	ids := make(map[int]bool)
	for _, panel := range d.Panels {
		if ids[panel.ID] || panel.Title == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %d %q with %d queries", panel.ID, panel.Title, len(panel.Targets))
		}
		ids[panel.ID] = true
		at := panel.GridPos
		if at.X+at.W > 24 || at.W == 0 || at.H == 0 {
			t.Errorf("%s is at %+v", panel.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

// A Prometheus scrapes the example: every query of the dashboard has data, and
// every alert can be evaluated. One upstream fails its checks meanwhile.
func TestMonitoringDashboard(t *testing.T) {
	t.Parallel()
	tool(t, "prometheus")
	var fit atomic.Bool
	fit.Store(true)
	backends := []*backend{newBackend(t, nil, nil), newBackend(t, nil, nil), newBackend(t, switched(&fit), nil)}
	addr, page := freeAddr(t), freeAddr(t)
	_, port, _ := net.SplitHostPort(page)
	c := startCaddy(t, exampleText(t, "monitoring", append(exampleAddresses(backends...),
		"example.com {", "http://"+addr+" {",
		"http://:9180 {", "http://:"+port+" {",
		"health_uri /healthz", "health_uri /healthz\nhealth_interval 100ms",
	)...))
	for _, b := range backends {
		c.waitInRotation(t, b.addr)
	}
	p := startPrometheus(t, monitoring, "localhost:9180", page, "15s", "200ms")
	l := startLoad("http://"+addr, http.MethodGet, "", 20, patience)
	defer l.finish()
	eventually(t, "it has scraped twice", func() bool {
		values := p.query(t, `min(count_over_time(caddy_load_balance_upstream_in_rotation[1m]))`)
		return len(values) == 1 && values[0] >= 2
	})
	fit.Store(false)
	c.waitStatus(t, "down", backends[2].addr)

	d := readDashboard(t)
	fill := strings.NewReplacer("$instance", ".*", "$pool", ".*", "$__rate_interval", "20s")
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			expr := fill.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s", panel.Title, expr)
			}
			eventually(t, panel.Title+" has data: "+expr, func() bool { return len(p.query(t, expr)) > 0 })
		}
	}
	for _, variable := range d.Templating.List {
		if variable.Type != "query" {
			continue
		}
		parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(variable.Definition)
		if parts == nil {
			t.Fatalf("%s is %s", variable.Name, variable.Definition)
		}
		var values []string
		p.ask(t, "label/"+parts[2]+"/values", url.Values{"match[]": {fill.Replace(parts[1])}}, &values)
		if want := map[string]string{"pool": "web", "instance": page}[variable.Name]; len(values) != 1 || values[0] != want {
			t.Errorf("%s has the values %v", variable.Name, values)
		}
	}

	in := p.query(t, `sum(caddy_load_balance_upstream_in_rotation{pool="web"})`)
	if len(in) != 1 || in[0] != 2 {
		t.Errorf("in rotation: %v", in)
	}
	served := p.query(t, `sum(caddy_load_balance_requests_total{outcome="success"})`)
	if done := float64(l.done.Load()); len(served) != 1 || served[0] == 0 || math.Abs(done-served[0]) > 50 {
		t.Errorf("served %v of %v", served, done)
	}
	eventually(t, "the alert for it is pending", func() bool { return p.state(t, "LoadBalanceUpstreamDown") == "pending" })
	rules := p.rules(t)
	if names := alertNames(t); len(rules) != len(names) {
		t.Errorf("%d alerts, want %v", len(rules), names)
	}
	for _, r := range rules {
		if r.Health != "ok" {
			t.Errorf("%+v", r)
		}
	}
}

// monitoringText returns a file of the example.
func monitoringText(t testing.TB, name string) string {
	t.Helper()
	return readTextFile(t, filepath.Join(monitoring, name))
}
