package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Tests of the admin API as a client in another language sees it.

// object is a JSON object of unknown shape.
type object = map[string]any

// list gets a list of upstreams, as plain JSON.
func (c *caddyProcess) list(t testing.TB, query string) []object {
	t.Helper()
	resp, body := c.ask(t, http.MethodGet, "/load_balance/upstreams"+query, nil)
	return decodeList(t, resp, body)
}

// act asks for something to be done, and returns the list that answers it.
func (c *caddyProcess) act(t testing.TB, action string) []object {
	t.Helper()
	resp, body := c.ask(t, http.MethodPost, "/load_balance/"+action, nil)
	return decodeList(t, resp, body)
}

func decodeList(t testing.TB, resp *http.Response, body string) []object {
	t.Helper()
	var rows []object
	if err := json.Unmarshal([]byte(body), &rows); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type is %q", kind)
	}
	if rows == nil {
		t.Error("got null instead of an array")
	}
	return rows
}

// ask sends a request to the admin API.
func (c *caddyProcess) ask(t testing.TB, method, path string, header http.Header) (*http.Response, string) {
	t.Helper()
	resp, body, err := c.request(method, path, header, "")
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// request sends a request to the admin API, again if the connection is reset
// before there is an answer: every load replaces the admin endpoint, also one
// that is refused.
func (c *caddyProcess) request(method, path string, header http.Header, body string) (resp *http.Response, answer string, err error) {
	for range 5 {
		resp, answer, err = c.requestOnce(method, path, header, body)
		if !isReset(err) {
			break
		}
	}
	return resp, answer, err
}

// load loads a config and returns Caddy's error.
func (c *caddyProcess) load(kind, config string) error {
	header := http.Header{"Content-Type": {kind}, "Cache-Control": {"must-revalidate"}}
	resp, answer, err := c.request(http.MethodPost, "/load", header, config)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return err
}

func (c *caddyProcess) requestOnce(method, path string, header http.Header, body string) (*http.Response, string, error) {
	req, err := http.NewRequest(method, "http://"+c.admin+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	maps.Copy(req.Header, header)
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, string(answer), err
}

// inBackground sends a request and closes the channel when it is over.
func inBackground(url string) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
		}
	}()
	return over
}

// The names, types and values of a row.
func TestAdminRows(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	well := newWitness(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
	})
	sick, releaseSick := newHeldPatient(t, true)
	gone, releaseGone := newHeldPatient(t, true)
	web, old := freeAddr(t), freeAddr(t)
	c := launch(t, site(web, to(well.addr+" "+sick.addr, "name web", "health_uri /health", "health_interval 1h", "health_max_interval 2h", "health_jitter 0"))+
		site(old, to(well.addr+" "+gone.addr, "name old", "health_uri /health", "health_max_failures 1", "health_readmit_after never"))+
		site(freeAddr(t), to("{header.X}", "name blank")))
	for _, pool := range []string{"web", "old"} {
		eventually(t, "the one is up", func() bool { return c.list(t, "?pool="+pool)[0]["status"] == "up" })
	}
	releaseSick()
	releaseGone()
	c.waitStatus(t, "down", sick.addr)
	c.waitStatus(t, "retired", gone.addr)
	waited := inBackground("http://" + web + "/wait")
	eventually(t, "the request is under way", func() bool { return c.list(t, "?pool=web")[0]["in_flight"] == 1.0 })

	if rows := c.list(t, ""); len(rows) != 5 {
		t.Fatalf("got %d rows", len(rows))
	}
	var rows []object
	for _, pool := range []string{"web", "old", "blank"} {
		rows = append(rows, c.list(t, "?pool="+pool)...)
	}
	for _, row := range rows {
		checkShape(t, row)
	}
	for i, want := range []object{
		{
			"pool": "web", "address": well.addr, "status": "up", "in_rotation": true, "operator": "ready",
			"weight": 1.0, "backup": false, "failures": 0.0, "max_failures": 10.0, "delay_ms": 3600e3, "reason": "",
			"retire_at": nil, "ejected_until": nil, "in_flight": 1.0, "requests": 1.0, "errors": 0.0,
		},
		{
			"pool": "web", "address": sick.addr, "status": "down", "in_rotation": false, "failures": 1.0,
			"delay_ms": 3605e3, "reason": "status 503", "requests": 0.0, "errors": 0.0,
		},
		{"pool": "old", "address": well.addr, "status": "up", "requests": 0.0},
		{
			"pool": "old", "address": gone.addr, "status": "retired", "in_rotation": false, "failures": 1.0,
			"max_failures": 1.0, "reason": "status 503", "next_check": nil, "retire_at": nil,
		},
		{
			"pool": "blank", "address": "{http.request.header.X}", "status": "up", "in_rotation": true,
			"reason": "unchecked", "last_check": nil, "next_check": nil, "retire_at": nil,
		},
	} {
		for name, value := range want {
			if !reflect.DeepEqual(rows[i][name], value) {
				t.Errorf("row %d: %s is %v, want %v", i, name, rows[i][name], value)
			}
		}
	}
	if rows[1]["retire_at"] == nil || rows[1]["next_check"] == nil {
		t.Errorf("the row of one that is down: %v", rows[1])
	}
	if check := rows[1]["last_check"].(object); check["ok"] != false || check["status_code"] != 503.0 || check["error"] != "status 503" {
		t.Errorf("the last check: %v", check)
	}
	if check := rows[0]["last_check"].(object); check["ok"] != true || check["status_code"] != 200.0 || check["error"] != "" {
		t.Errorf("the last check: %v", check)
	}
	close(release)
	<-waited
	eventually(t, "the request is done", func() bool { return c.list(t, "?pool=web")[0]["in_flight"] == 0.0 })
}

// checkShape checks the fields of a row, and their types.
func checkShape(t *testing.T, row object) {
	t.Helper()
	checkFields(t, row, map[string]string{
		"pool": "text", "address": "text", "status": "text", "in_rotation": "bool", "operator": "text", "weight": "number",
		"backup": "bool", "failures": "number", "max_failures": "number", "delay_ms": "number", "reason": "text",
		"since": "time", "last_check": "object", "next_check": "time", "retire_at": "time", "ejected_until": "time",
		"in_flight": "number", "requests": "number", "errors": "number",
	})
	if check, ok := row["last_check"].(object); ok {
		checkFields(t, check, map[string]string{
			"time": "time", "duration_ms": "number", "ok": "bool", "status_code": "number", "error": "text",
		})
	}
}

func checkFields(t *testing.T, got object, want map[string]string) {
	t.Helper()
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
		t.Errorf("fields %q, want those of %v", names, want)
	}
	for name, kind := range want {
		ok := false
		switch value := got[name].(type) {
		case string:
			_, err := time.Parse(time.RFC3339, value)
			ok = kind == "text" || kind == "time" && err == nil
		case bool:
			ok = kind == "bool"
		case float64:
			ok = kind == "number"
		case object:
			ok = kind == "object"
		case nil:
			ok = kind == "time" || kind == "object"
		}
		if !ok {
			t.Errorf("%s is %v, want a %s", name, got[name], kind)
		}
	}
}

// pool and upstream filter the list. An address given twice has two turns and
// one row, an unknown one none.
func TestAdminFilters(t *testing.T) {
	t.Parallel()
	one, two := newWitness(t, nil), newWitness(t, nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(one.addr+" "+two.addr+" "+one.addr, "name a"))+
		site(freeAddr(t), to(two.addr, "name b"))+
		site(freeAddr(t), to(two.addr, "name b")))
	c.waitStatus(t, "up", one.addr, two.addr)
	for query, want := range map[string][]string{
		"":                                  {"a " + one.addr, "a " + two.addr, "b " + two.addr, "b#2 " + two.addr},
		"?pool=a":                           {"a " + one.addr, "a " + two.addr},
		"?pool=b":                           {"b " + two.addr},
		"?pool=b%232":                       {"b#2 " + two.addr},
		"?upstream=" + one.addr:             {"a " + one.addr},
		"?upstream=" + two.addr:             {"a " + two.addr, "b " + two.addr, "b#2 " + two.addr},
		"?upstream=" + two.addr + "&pool=b": {"b " + two.addr},
		"?upstream=" + one.addr + "&pool=b": nil,
		"?pool=nonsense":                    nil,
		"?upstream=nonsense":                nil,
		"?upstream=" + two.addr[:len(two.addr)-1]: nil,
	} {
		var got []string
		for _, row := range c.list(t, query) {
			got = append(got, fmt.Sprint(row["pool"], " ", row["address"]))
		}
		slices.SortStableFunc(got, func(a, b string) int { // pools in any order, upstreams in theirs
			return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	if row := c.list(t, "?pool=a&upstream="+one.addr)[0]; row["weight"] != 2.0 {
		t.Errorf("got %v", row)
	}
	turns := make(map[string]int)
	for range 9 {
		_, body := get(t, "http://"+addr)
		turns[body]++
	}
	if turns[one.addr] != 6 || turns[two.addr] != 3 {
		t.Errorf("got turns %v", turns)
	}

	if err := c.load("text/caddyfile", c.caddyfile("http://"+addr+" {\n\trespond plain\n}\n")); err != nil {
		t.Fatal(err)
	}
	if rows := c.list(t, ""); len(rows) != 0 {
		t.Errorf("pools of the past: %v", rows)
	}
}

// check answers at once, though the check takes long, and only for the pool
// that is named.
func TestAdminCheck(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	asked := make(chan string, 10)
	w := newWitness(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/slow" {
			<-release
		}
	})
	options := "health_interval 1h\nhealth_jitter 0\nhealth_timeout 1m\nstart_wait 0"
	c := launch(t, site(freeAddr(t), to(w.addr, "name slow", "health_uri /slow", options))+
		site(freeAddr(t), to(w.addr, "name quick", "health_uri /quick", options)))
	first := []string{<-asked, <-asked}
	slices.Sort(first)
	if !slices.Equal(first, []string{"/quick", "/slow"}) {
		t.Fatalf("first checks: %q", first)
	}
	c.waitRow(t, "quick")
	if rows := c.act(t, "check?pool=quick&upstream="+w.addr); len(rows) != 1 || rows[0]["status"] != "up" {
		t.Errorf("got %v", rows)
	}
	if path := <-asked; path != "/quick" {
		t.Errorf("checked at %s", path)
	}
	rows := c.act(t, "check?upstream="+w.addr)
	if len(rows) != 2 {
		t.Errorf("got %v", rows)
	}
	if row := c.list(t, "?pool=slow")[0]; row["status"] != "unknown" || row["last_check"] != nil { // still under way
		t.Errorf("got %v", row)
	}
	if path := <-asked; path != "/quick" {
		t.Errorf("checked at %s", path)
	}
	close(release)
	eventually(t, "the slow one is up", func() bool { return c.row(t, "slow").Status == "up" })
	if path := <-asked; path != "/slow" { // asked for while one was under way
		t.Errorf("checked at %s", path)
	}
}

// readmit answers with the state as it then is: down, no failures, and a
// check under way. For one that is not retired it does nothing.
func TestAdminReadmit(t *testing.T) {
	t.Parallel()
	well := newPatient(t, false)
	gone, fail, pass := newReadmitted(t)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+gone.addr, "health_uri /health", "health_interval 1h", "health_max_failures 1", "health_readmit_after never", "health_timeout 1m")))
	c.waitStatus(t, "up", well.addr)
	fail()
	c.waitStatus(t, "retired", gone.addr)

	before := c.list(t, "?upstream="+well.addr)
	if rows := c.act(t, "readmit?upstream="+well.addr); !reflect.DeepEqual(rows, before) {
		t.Errorf("readmit of one that is up: %v, before %v", rows, before)
	}
	rows := c.act(t, "readmit?upstream="+gone.addr)
	if len(rows) != 1 || rows[0]["status"] != "down" || rows[0]["failures"] != 0.0 || rows[0]["in_rotation"] != false {
		t.Errorf("got %v", rows)
	}
	eventually(t, "it is checked", func() bool { return len(gone.probes()) == 2 })
	pass()
	c.waitStatus(t, "up", gone.addr)
}

// Errors are in the form of Caddy's admin API.
func TestAdminErrors(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	c := launch(t, site(freeAddr(t), to(w.addr, "name pool", "health_interval 1h", "health_jitter 0")))
	c.waitStatus(t, "up", w.addr)
	up := "?upstream=" + w.addr
	for _, tt := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "upstreams", 405, "GET"},
		{"PUT", "upstreams", 405, "GET"},
		{"DELETE", "upstreams" + up, 405, "GET"},
		{"GET", "check" + up, 405, "POST"},
		{"PUT", "check" + up, 405, "POST"},
		{"GET", "readmit" + up, 405, "POST"},
		{"DELETE", "readmit" + up, 405, "POST"},
		{"GET", "readmit", 405, "POST"},
		{"POST", "check", 400, "upstream"},
		{"POST", "readmit", 400, "upstream"},
		{"POST", "check?pool=pool", 400, "upstream"},
		{"POST", "check?upstream=", 400, "upstream"},
		{"POST", "check?upstream=192.0.2.1:80", 404, "192.0.2.1:80"},
		{"POST", "readmit?upstream=192.0.2.1:80", 404, "192.0.2.1:80"},
		{"POST", "check" + up + "&pool=other", 404, "other"},
		{"POST", "check?upstream=%3Cscript%3E%22%0A%FF", 404, "<script>"},
	} {
		resp, body := c.ask(t, tt.method, "/load_balance/"+tt.path, nil)
		var answer object
		err := json.Unmarshal([]byte(body), &answer)
		message, _ := answer["error"].(string)
		if resp.StatusCode != tt.status || err != nil || len(answer) != 1 || !strings.Contains(message, tt.text) {
			t.Errorf("%s %s: status %d, %s, %v; want %d and %q", tt.method, tt.path, resp.StatusCode, body, err, tt.status, tt.text)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %s: Content-Type is %q", tt.method, tt.path, kind)
		}
	}
	if resp, _ := c.ask(t, "POST", "/load_balance/nonsense"+up, nil); resp.StatusCode != 404 {
		t.Errorf("an unknown action: status %d", resp.StatusCode)
	}
	if n := len(w.probes()); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}
}

// No name of a pool and no answer of a backend breaks the JSON.
func TestAdminWeirdNames(t *testing.T) {
	t.Parallel()
	names := []string{
		`"quoted" \and\ 'single'`, "two\nlines\ttab\r", "<script>alert(1)</script>&amp;", "ünïcödé 🎈 \u2028 \u202e",
		"\u0000 \u001b[31m", "#2", "a&pool=b", " ", strings.Repeat("long ", 1000), "{http.request.host}", "[]{},:",
	}
	raw := newRaw(t, replies("HTTP/1.1 302 \"<b>\xff\r\nLocation: /\xff\xfe\"\\<script>\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	c := newCaddy(t)
	handlers := make(map[string]string)
	for _, name := range names {
		text, err := json.Marshal(object{
			"handler": "load_balance", "name": name, "upstreams": []object{{"dial": raw.addr}},
			"health_checks": object{"active": object{"uri": "/health"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		handlers[freeAddr(t)] = string(text)
	}
	c.startHandlers(t, handlers)
	for _, name := range names {
		var rows []object
		eventually(t, "it has a result", func() bool {
			rows = c.list(t, "?pool="+url.QueryEscape(name))
			return len(rows) == 1 && rows[0]["last_check"] != nil
		})
		checkShape(t, rows[0])
		if rows[0]["pool"] != name || rows[0]["status"] != "down" || rows[0]["reason"] != "status 302" {
			t.Errorf("%q: got %v", name, rows[0])
		}
		c.act(t, "check?upstream="+url.QueryEscape(raw.addr)+"&pool="+url.QueryEscape(name))
	}
	if rows := c.list(t, ""); len(rows) != len(names) {
		t.Errorf("got %d rows, want %d", len(rows), len(names))
	}
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, "load_balance") && !json.Valid([]byte(line)) {
			t.Errorf("no JSON in the log: %s", line)
		}
	}
}

// Who may use the API is for Caddy to say: it answers as for its own config.
func TestAdminAccess(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	c := launch(t, site(freeAddr(t), to(w.addr, "health_interval 1h")))
	c.waitStatus(t, "up", w.addr)
	_, port, _ := net.SplitHostPort(c.admin)
	for _, tt := range []struct {
		header http.Header
		status int
	}{
		{nil, 200},
		{http.Header{"Host": {"localhost:" + port}}, 200},
		{http.Header{"Host": {"evil.example"}}, 403},
		{http.Header{"Origin": {"http://evil.example"}}, 403},
		{http.Header{"Origin": {"http://" + c.admin}}, 200},
		{http.Header{"Origin": {"null"}}, 400},
		{http.Header{"Sec-Fetch-Mode": {"no-cors"}}, 400},
	} {
		for _, request := range [][2]string{
			{"GET", "/config/"},
			{"GET", "/load_balance/upstreams"},
			{"POST", "/load_balance/check?upstream=" + w.addr},
			{"POST", "/load_balance/readmit?upstream=" + w.addr},
		} {
			if resp, body := c.ask(t, request[0], request[1], tt.header); resp.StatusCode != tt.status {
				t.Errorf("%s with %v: status %d, want %d: %s", request, tt.header, resp.StatusCode, tt.status, body)
			}
		}
	}
}

// The list is written while statuses change and configs come and go.
func TestAdminWhileReloading(t *testing.T) {
	t.Parallel()
	p := newPatient(t, false)
	addr := freeAddr(t)
	text := site(addr, to(p.addr, "name pool", "health_uri /health", "health_interval 5ms", "health_increment 0"))
	c := launch(t, text)
	c.waitStatus(t, "up", p.addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 8 {
			p.sick.Store(i%2 == 0)
			if err := c.load("text/caddyfile", c.caddyfile(text)); err != nil {
				t.Errorf("reload: %v", err)
			}
		}
	}()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		resp, body, err := c.requestOnce(http.MethodGet, "/load_balance/upstreams", nil, "")
		var rows []object
		if err == nil && (json.Unmarshal([]byte(body), &rows) != nil || resp.StatusCode != 200 || len(rows) != 1 || rows[0]["pool"] != "pool") {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
	}
}
