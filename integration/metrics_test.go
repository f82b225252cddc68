package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// samples are the series of an endpoint with their values, spelled as
// Prometheus does: name{label="value",...}.
type samples map[string]float64

// parseSamples reads what a metrics endpoint answers. No series may be there
// twice.
func parseSamples(t testing.TB, text string) samples {
	t.Helper()
	found := make(samples)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		series := line[:at]
		if _, twice := found[series]; twice {
			t.Errorf("%s is there twice", series)
		}
		found[series] = value
	}
	return found
}

// metrics returns what Caddy's admin endpoint has for Prometheus.
func (c *caddyProcess) metrics(t testing.TB) samples {
	t.Helper()
	status, body := c.api(t, http.MethodGet, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	return parseSamples(t, string(body))
}

// series returns the name of a series of an upstream; more labels are given as
// name and value in turn.
func series(name, pool, upstream string, more ...string) string {
	more = append(more, "pool", pool, "upstream", upstream)
	var labels []string
	for i := 0; i < len(more); i += 2 {
		labels = append(labels, fmt.Sprintf("%s=%q", more[i], more[i+1]))
	}
	slices.Sort(labels)
	return "caddy_load_balance_" + name + "{" + strings.Join(labels, ",") + "}"
}

// require fails the test unless the series have those values, given in turn.
func (s samples) require(t testing.TB, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name, want := pairs[i].(string), pairs[i+1].(int)
		if got, ok := s[name]; !ok || got != float64(want) {
			t.Errorf("%s is %v (there: %t), want %d", name, got, ok, want)
		}
	}
}

// about returns how many series have that text.
func (s samples) about(text string) int {
	n := 0
	for name := range s {
		if strings.Contains(name, text) {
			n++
		}
	}
	return n
}

// Twenty reloads, then an upstream is removed: the metrics are there all the
// time, at the admin endpoint and at a site, each series once, and counts go
// on; then the series of the upstream are gone.
func TestCase_c4140_c6773(t *testing.T) {
	t.Parallel()
	stays, goes := newBackend(t, nil, nil), newBackend(t, nil, nil)
	addr, page := freeAddr(t), freeAddr(t)
	exposed := fmt.Sprintf("http://%s {\n\tmetrics\n}\n", page)
	sites := func(upstreams, uri string) string {
		return siteAt(addr, upstreams, "name web", "health_uri "+uri, "health_interval 50ms") + exposed
	}
	both := addrs(stays, goes)
	c := startCaddy(t, sites(both, "/"))
	c.waitInRotation(t, stays.addr, goes.addr)

	stop, scraped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { scraped <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			status, body, err := tryGet("http://" + page)
			if err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v: %.200s", status, err, body)
				return
			}
			for _, b := range []*backend{stays, goes} {
				if !strings.Contains(body, series("upstream_in_rotation", "web", b.addr)+" ") {
					t.Errorf("nothing about %s", b.addr)
					return
				}
			}
			n++
		}
	}()
	sent, checks := 0, 0.0
	for i := range 20 {
		getAgain(t, "http://"+addr)
		getAgain(t, "http://"+addr)
		sent += 2
		c.reloadCaddyfile(t, sites(both, "/"+strings.Repeat("x", i/5))) // another check now and then
		now := c.metrics(t)
		if got := now[series("requests_total", "web", stays.addr, "outcome", "success")] +
			now[series("requests_total", "web", goes.addr, "outcome", "success")]; got < float64(sent) || got > float64(sent+10) {
			t.Errorf("reload %d: %v requests counted, %d sent", i+1, got, sent)
		}
		if got := now[series("checks_total", "web", goes.addr, "result", "passed")]; got < checks {
			t.Errorf("reload %d: %v checks, were %v", i+1, got, checks)
		} else {
			checks = got
		}
	}
	close(stop)
	if n := <-scraped; n < 20 {
		t.Errorf("%d scrapes", n)
	}
	if checks < 3 {
		t.Errorf("%v checks", checks)
	}

	c.reloadCaddyfile(t, sites(stays.addr, "/"))
	_, body := getAgain(t, "http://"+page)
	for where, now := range map[string]samples{"admin": c.metrics(t), "site": parseSamples(t, body)} {
		if n := now.about(goes.addr); n != 0 {
			t.Errorf("%s: %d series of the removed one", where, n)
		}
		if n := now.about(series("upstream_in_rotation", "web", stays.addr)); n != 1 {
			t.Errorf("%s: no series of the one that stays", where)
		}
	}
}

// A stage on which each pool has something else happen to its requests: the
// counts are what happened.
func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	const n = 7
	well := newBackend(t, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	hangs := newBackend(t, nil, hangUp)
	gate := make(chan struct{})
	slow := newBackend(t, nil, hanging(gate))
	frozen := startBackend(t, 0)
	dead := refusing(t)
	quiet := "health_interval 1h\nhealth_jitter 0" // checked once
	statuses, statusesURL := balancedSite(t, well.addr, "name statuses", quiet)
	retried, retriedURL := balancedSite(t, hangs.addr+" "+well.addr, "name retried", quiet, "lb_policy first")
	rescued, rescuedURL := balancedSite(t, frozen.addr+" "+well.addr, "name rescued", "health_uri /health", "health_timeout 1s", quiet, "lb_policy first")
	canceled, canceledURL := balancedSite(t, slow.addr, "name canceled", quiet)
	unserved, unservedURL := balancedSite(t, dead, "name unserved", "health_increment 1h", "health_max_interval 2h", quiet)
	c := startCaddy(t, statuses+retried+rescued+canceled+unserved)
	t.Cleanup(func() { close(gate) })
	c.waitInRotation(t, well.addr, hangs.addr, slow.addr, frozen.addr)
	c.waitStatus(t, "down", dead)

	for range n {
		get(t, statusesURL)
		get(t, statusesURL+"/missing")
		get(t, statusesURL+"/broken")
		if status, _ := get(t, retriedURL); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		if status, _ := get(t, unservedURL); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	}
	frozen.hang()
	if status, _ := get(t, rescuedURL); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	frozen.resume()
	inFlight := series("in_flight", "canceled", slow.addr)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, canceledURL, nil)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("status %d", resp.StatusCode)
		}
	}()
	eventually(t, "the request is under way", func() bool { return c.metrics(t)[inFlight] == 1 })
	cancel()
	<-over
	eventually(t, "it is not any more", func() bool { return c.metrics(t)[inFlight] == 0 })

	outcomes := func(now samples, pool, upstream string, success, status, failed, canceled, rescued int) {
		t.Helper()
		for outcome, want := range map[string]int{
			"success": success, "error_status": status, "failed": failed, "canceled": canceled, "rescued": rescued,
		} {
			now.require(t, series("requests_total", pool, upstream, "outcome", outcome), want)
		}
	}
	now := c.metrics(t)
	outcomes(now, "statuses", well.addr, 2*n, n, 0, 0, 0)
	outcomes(now, "retried", hangs.addr, 0, 0, n, 0, 0)
	outcomes(now, "retried", well.addr, n, 0, 0, 0, 0)
	outcomes(now, "rescued", frozen.addr, 0, 0, 0, 0, 1)
	outcomes(now, "rescued", well.addr, 1, 0, 0, 0, 0)
	outcomes(now, "canceled", slow.addr, 0, 0, 0, 1, 0)
	outcomes(now, "unserved", dead, 0, 0, 0, 0, 0)
	now.require(t,
		series("retries_total", "statuses", well.addr), 0,
		series("retries_total", "retried", hangs.addr), 0,
		series("retries_total", "retried", well.addr), n,
		series("retries_total", "rescued", well.addr), 1,
		`caddy_load_balance_no_upstream_total{pool="unserved"}`, n,
		`caddy_load_balance_no_upstream_total{pool="statuses"}`, 0,
		series("upstream_status", "unserved", dead, "status", "down"), 1,
		series("upstream_status", "unserved", dead, "status", "up"), 0,
		series("upstream_in_rotation", "unserved", dead), 0,
		series("upstream_in_rotation", "statuses", well.addr), 1,
		series("checks_total", "statuses", well.addr, "result", "passed"), 1,
		series("checks_total", "statuses", well.addr, "result", "failed"), 0,
		series("checks_total", "rescued", frozen.addr, "result", "passed"), 1,
		series("check_duration_seconds_count", "statuses", well.addr), 1,
	)
	failed := now[series("checks_total", "unserved", dead, "result", "failed")]
	if failed < 1 { // and those that the requests asked for
		t.Errorf("%v failed checks", failed)
	}
	next := now[series("next_check_timestamp_seconds", "unserved", dead)]
	if left := time.Until(time.UnixMilli(int64(next * 1000))); left < time.Hour || left > 3*time.Hour {
		t.Errorf("checked next in %s", left)
	}
	if got := hangs.requests.Load(); got < n || got > n+1 { // Go sends the first one again: it went over the connection of a check
		t.Errorf("%d requests came to the one that hangs up", got)
	}
	if got := well.requests.Load(); got != 3*n+n+1 {
		t.Errorf("%d requests came to the one that is well", got)
	}
}

// An ejection and a transition are counted as they are logged.
func TestMetricsOfTransitions(t *testing.T) {
	t.Parallel()
	broken, well := newBackend(t, nil, answer(http.StatusInternalServerError)), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(broken, well), "name web", "fail_duration 1m", "unhealthy_status 500", "lb_policy first")
	c := startCaddy(t, site)
	c.waitInRotation(t, broken.addr, well.addr)
	get(t, url)
	c.waitLogged(t, "upstream is ejected: its requests failed", broken.addr, time.Time{})
	way := func(from, to string) string {
		return series("transitions_total", "web", broken.addr, "from", from, "to", to)
	}
	c.metrics(t).require(t,
		way("unknown", "up"), 1, way("up", "ejected"), 1, way("ejected", "up"), 0, way("up", "down"), 0,
		series("upstream_in_rotation", "web", broken.addr), 0,
		series("upstream_status", "web", broken.addr, "status", "up"), 1,
	)
}
