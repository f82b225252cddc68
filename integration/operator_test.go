package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Tests of the operator's part of the admin API.

// A drained upstream gets no new requests in the pools that are meant, and
// its checks go on; one in maintenance gets neither.
func TestAdminModes(t *testing.T) {
	t.Parallel()
	var held sync.RWMutex // its checks
	a := newBackend(t, func(http.ResponseWriter, *http.Request) {
		held.RLock()
		defer held.RUnlock()
	}, nil)
	b := newBackend(t, nil, nil)
	web, api := freeAddr(t), freeAddr(t)
	c := launch(t, site(web, to(addrs(a, b), "name web", "health_interval 50ms", "health_jitter 0"))+
		site(api, to(addrs(a, b), "name api", "health_interval 1h")))
	for _, pool := range []string{"web", "api"} {
		c.waitStatusIn(t, pool, "up", a.addr, b.addr)
	}
	mode := func(rows []object, pool, operator string, in bool) {
		t.Helper()
		for _, row := range rows {
			checkShape(t, row)
			if row["pool"] == pool && row["address"] == a.addr && row["operator"] == operator && row["in_rotation"] == in {
				return
			}
		}
		t.Errorf("%s is not in mode %s in pool %s: %v", a.addr, operator, pool, rows)
	}

	rows := c.act(t, "drain?pool=web&upstream="+a.addr)
	mode(rows, "web", "drain", false)
	if len(rows) != 1 {
		t.Errorf("got %v", rows)
	}
	mode(c.list(t, ""), "api", "ready", true)
	requireShares(t, "http://"+web, 10, b.addr)
	requireShares(t, "http://"+api, 10, a.addr, b.addr)
	checks := a.probes.Load()
	eventually(t, "checks go on", func() bool { return a.probes.Load() >= checks+3 })

	rows = c.act(t, "maint?upstream="+a.addr)
	mode(rows, "web", "maint", false)
	mode(rows, "api", "maint", false)
	for _, row := range rows {
		if row["next_check"] != nil {
			t.Errorf("a check is planned: %v", row)
		}
	}
	requireShares(t, "http://"+api, 10, b.addr)
	time.Sleep(50 * time.Millisecond) // a check may have been under way
	checks = a.probes.Load()
	c.act(t, "check?upstream="+a.addr)
	time.Sleep(200 * time.Millisecond)
	if n := a.probes.Load() - checks; n > 0 {
		t.Errorf("%d checks in maintenance", n)
	}

	held.Lock()
	rows = c.act(t, "ready?upstream="+a.addr)
	held.Unlock()
	for _, row := range rows {
		if row["status"] != "unknown" || row["in_rotation"] != false {
			t.Errorf("after maintenance: %v", row)
		}
	}
	for _, pool := range []string{"web", "api"} {
		c.waitStatusIn(t, pool, "up", a.addr)
		mode(c.list(t, ""), pool, "ready", true)
	}
	requireShares(t, "http://"+api, 10, a.addr, b.addr)
}

// A mode with a lease ends by itself. A new one replaces it, with or without
// a lease of its own.
func TestAdminLeases(t *testing.T) {
	t.Parallel()
	a, b := newBackend(t, nil, nil), newBackend(t, nil, nil)
	c := launch(t, site(freeAddr(t), to(addrs(a, b), "health_interval 1h")))
	c.waitStatus(t, "up", a.addr, b.addr)
	const lease = 500 * time.Millisecond
	for _, mode := range []string{"drain", "maint"} {
		started := time.Now()
		if row := c.act(t, mode+"?for=500ms&upstream="+a.addr)[0]; row["operator"] != mode || row["in_rotation"] != false {
			t.Errorf("%s: got %v", mode, row)
		}
		eventually(t, mode+" ends", func() bool { return c.upstream(t, a.addr).InRotation })
		if took := time.Since(started); took < lease || took > lenient(lease+margin) {
			t.Errorf("%s for %s took %s", mode, lease, took)
		}
	}
	for _, tt := range []struct{ first, then, want string }{
		{"drain?for=500ms", "drain", "drain"},
		{"drain?for=500ms", "maint", "maint"},
		{"maint?for=500ms", "drain?for=1h", "drain"},
		{"drain?for=500ms", "ready", "ready"},
		{"drain", "ready?for=500ms", "ready"},
	} {
		for _, action := range []string{tt.first, tt.then} {
			separator := "?"
			if strings.Contains(action, "?") {
				separator = "&"
			}
			c.act(t, action+separator+"upstream="+a.addr)
		}
		time.Sleep(lease + 200*time.Millisecond)
		if row := c.upstream(t, a.addr); row.Operator != tt.want {
			t.Errorf("%s, then %s: got %s", tt.first, tt.then, row.Operator)
		}
	}
}

// What is wrong is refused, and changes nothing.
func TestAdminModeErrors(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	c := launch(t, site(freeAddr(t), to(w.addr, "name pool", "health_interval 1h", "health_jitter 0")))
	c.waitStatus(t, "up", w.addr)
	up := "?upstream=" + w.addr
	type request struct {
		method, path string
		status       int
		text         string
	}
	requests := []request{
		{"GET", "upstreams?explain=2", 400, "explain"},
		{"GET", "upstreams?explain=yes", 400, "explain"},
		{"POST", "upstreams?explain=1", 405, "GET"},
	}
	for _, mode := range []string{"drain", "maint", "ready"} {
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			requests = append(requests, request{method, mode + up, 405, "POST"})
		}
		for _, lease := range []string{"", "0", "0s", "-1s", "5", "soon", "never", "1s2", "99999999h", "%1b"} {
			requests = append(requests, request{"POST", mode + up + "&for=" + lease, 400, "'for'"})
		}
		requests = append(requests,
			request{"POST", mode, 400, "upstream"},
			request{"POST", mode + "?pool=pool&for=1s", 400, "upstream"},
			request{"POST", mode + "?upstream=192.0.2.1:80", 404, "192.0.2.1:80"},
			request{"POST", mode + up + "&pool=other&for=1s", 404, "other"},
		)
	}
	for _, r := range requests {
		resp, body := c.ask(t, r.method, "/load_balance/"+r.path, nil)
		var answer object
		err := json.Unmarshal([]byte(body), &answer)
		message, _ := answer["error"].(string)
		if resp.StatusCode != r.status || err != nil || !strings.Contains(message, r.text) {
			t.Errorf("%s %s: status %d, %s, %v; want %d and %q", r.method, r.path, resp.StatusCode, body, err, r.status, r.text)
		}
	}
	if row := c.upstream(t, w.addr); row.Operator != "ready" || !row.InRotation || len(w.probes()) != 1 {
		t.Errorf("got %+v after %d checks", row, len(w.probes()))
	}
}

// Modes and what is left of their leases outlive reloads, whatever else they
// change, as long as the pool has the upstream.
func TestAdminModesOverReloads(t *testing.T) {
	t.Parallel()
	a, b, d := newWitness(t, nil), newWitness(t, nil), newWitness(t, nil)
	addr := freeAddr(t)
	all := a.addr + " " + b.addr + " " + d.addr
	c := launch(t, site(addr, to(all, "name web", "health_interval 1h")))
	c.waitStatus(t, "up", a.addr, b.addr, d.addr)
	reload := func(options ...string) {
		t.Helper()
		if err := c.load("text/caddyfile", c.caddyfile(site(addr, to(options[0], options[1:]...)))); err != nil {
			t.Fatal(err)
		}
	}
	modes := func(want string) {
		t.Helper()
		got := ""
		for _, row := range c.upstreams(t) {
			got += row.Operator + " "
			if row.InRotation != (row.Operator == "ready" && row.Status == "up") {
				t.Errorf("got %+v", row)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("modes are %s, want %s", got, want)
		}
	}

	started := time.Now()
	c.act(t, "drain?upstream="+a.addr)
	c.act(t, "maint?upstream="+b.addr)
	c.act(t, "drain?for=6s&upstream="+d.addr)
	checks := len(b.probes())
	reload(all, "name web", "health_interval 1h")
	modes("drain maint drain")
	reload(all, "name web", "health_interval 50ms", "health_uri /other") // another check
	modes("drain maint drain")
	if err := c.load("text/caddyfile", c.caddyfile(site(addr, to(all, "nonsense")))); err == nil {
		t.Error("nonsense is taken")
	}
	modes("drain maint drain")
	c.waitStatus(t, "up", a.addr)
	if n := len(b.probes()) - checks; n > 0 {
		t.Errorf("%d checks in maintenance", n)
	}
	if time.Since(started) < 6*time.Second {
		modes("drain maint drain")
	}
	eventually(t, "the lease ends", func() bool { return c.upstream(t, d.addr).InRotation })
	if took := time.Since(started); took < 6*time.Second {
		t.Errorf("the lease ended after %s", took)
	}
	modes("drain maint ready")
	requireShares(t, "http://"+addr, 10, d.addr)

	reload(b.addr+" "+d.addr, "name web")
	reload(all, "name web") // a is as if it was new
	c.waitStatus(t, "up", a.addr)
	modes("ready maint ready")
	c.act(t, "ready?upstream="+b.addr)
	c.waitStatus(t, "up", b.addr)
	modes("ready ready ready")
}

// Requests under way when their upstream is drained finish, and are counted
// down as they do.
func TestAdminDrainCountsDown_c7277(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newBackend(t, nil, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // lets go what is left of a test that failed
	well := newBackend(t, nil, nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(slow.addr+" "+well.addr, "lb_policy first")))
	c.waitStatus(t, "up", slow.addr, well.addr)
	statuses := make(chan int, 3)
	for range 3 {
		go func() {
			status, err := quietGet("http://" + addr)
			if err != nil {
				t.Error(err)
			}
			statuses <- status
		}()
	}
	eventually(t, "3 requests are under way", func() bool { return c.upstream(t, slow.addr).InFlight == 3 })
	if row := c.act(t, "drain?upstream="+slow.addr)[0]; row["in_flight"] != 3.0 || row["in_rotation"] != false {
		t.Errorf("got %v", row)
	}
	for left := 2; left >= 0; left-- {
		release <- struct{}{}
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		eventually(t, "one less is under way", func() bool { return c.upstream(t, slow.addr).InFlight == left })
		if _, body := get(t, "http://"+addr); body != well.addr {
			t.Errorf("served by %s", body)
		}
	}
	if row := c.upstream(t, slow.addr); row.Status != "up" || row.Operator != "drain" || row.Requests != 3 || row.Errors != 0 {
		t.Errorf("got %+v", row)
	}
}

// explain=1 adds what happened and what comes next, and nothing else.
func TestAdminExplain(t *testing.T) {
	t.Parallel()
	well, sick := newPatient(t, false), newPatient(t, true)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+sick.addr, "name web", "health_uri /health", "health_interval 1h", "health_increment 1h", "health_max_interval 3h", "health_jitter 0", "health_max_failures 4"))+
		site(freeAddr(t), to("{header.X}", "name blank")))
	c.waitStatus(t, "up", well.addr)
	c.waitStatus(t, "down", sick.addr)
	c.act(t, "check?upstream="+sick.addr)
	explained := func(address string) admin.Upstream {
		t.Helper()
		var rows []admin.Upstream
		_, body := c.api(t, http.MethodGet, "/load_balance/upstreams?explain=1&upstream="+address)
		if err := json.Unmarshal(body, &rows); err != nil || len(rows) != 1 || rows[0].Explanation == nil {
			t.Fatalf("%v: %s", err, body)
		}
		return rows[0]
	}
	eventually(t, "the extra check is known", func() bool { return len(explained(sick.addr).History) == 2 })

	row := explained(sick.addr)
	extra, first := row.History[0], row.History[1]
	if !extra.Extra || extra.Counted || first.Extra || !first.Counted || extra.OK || first.OK ||
		first.Error != "status 503" || first.StatusCode != 503 || extra.Time.Before(*first.Time) {
		t.Errorf("history: %+v", row.History)
	}
	// after the failure that took it down: 2 h, 3 h, and 3 h at most
	checks := row.Forecast.Checks
	if len(checks) != 3 || !checks[0].Equal(*row.NextCheck) || checks[1].Sub(*checks[0]) != 3*time.Hour || checks[2].Sub(*checks[1]) != 3*time.Hour {
		t.Errorf("forecast: %v, next check %v", checks, row.NextCheck)
	}
	if at := row.Forecast.RetireAt; at == nil || !at.Equal(*checks[2]) || !at.Equal(*row.RetireAt) {
		t.Errorf("retired at %v and %v, the last check is at %v", at, row.RetireAt, checks[2])
	}
	if row := explained(well.addr); len(row.History) != 1 || !row.History[0].OK || len(row.Forecast.Checks) != 20 || row.Forecast.RetireAt != nil {
		// it has nobody in rotation beside it
		t.Errorf("got %+v", row.Explanation)
	}

	plain := c.list(t, "?upstream="+sick.addr)[0]
	for _, query := range []string{"&explain=0", "&explain="} {
		checkShape(t, c.list(t, "?upstream="+sick.addr+query)[0])
	}
	full := c.list(t, "?explain=1&upstream="+sick.addr)[0]
	for name, kind := range map[string]string{"history": "[]", "forecast": "{}"} {
		if _, there := full[name]; !there {
			t.Errorf("no %s, which should be %s", name, kind)
		}
		delete(full, name)
	}
	if len(full) != len(plain) {
		t.Errorf("with an explanation: %v, without: %v", full, plain)
	}
	_, body := c.api(t, http.MethodGet, "/load_balance/upstreams?explain=1&pool=blank")
	if !strings.Contains(string(body), `"history":[],"forecast":{"checks":[],"retire_at":null}`) {
		t.Errorf("one without checks: %s", body)
	}
}

// Of all results, the latest 20 are remembered, newest first, over reloads.
func TestAdminHistory(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(w.addr, "name web", "health_interval 20ms")))
	eventually(t, "30 checks", func() bool { return len(w.probes()) > 30 })
	if err := c.load("text/caddyfile", c.caddyfile(site(addr, to(w.addr, "name web", "health_interval 1h")))); err != nil {
		t.Fatal(err)
	}
	history, _ := c.list(t, "?explain=1")[0]["history"].([]any)
	if len(history) != 20 {
		t.Fatalf("%d results", len(history))
	}
	var last string
	for _, past := range history {
		past := past.(object)
		checkFields(t, past, map[string]string{
			"time": "time", "duration_ms": "number", "ok": "bool", "status_code": "number", "error": "text",
			"extra": "bool", "counted": "bool",
		})
		at, _ := time.Parse(time.RFC3339, past["time"].(string))
		if before, err := time.Parse(time.RFC3339, last); err == nil && at.After(before) {
			t.Errorf("%s is listed after %s", past["time"], last)
		}
		last = past["time"].(string)
	}
}
