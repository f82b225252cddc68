package integration

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// jsonConfig returns a JSON config for c with a server per handler, which
// listens at the address that is its key.
func (c *caddyProcess) jsonConfig(handlers map[string]string) string {
	var servers []string
	for addr, handler := range handlers {
		servers = append(servers, fmt.Sprintf(`%q: {"listen": [%q], "routes": [{"handle": [%s]}]}`, addr, addr, handler))
	}
	return fmt.Sprintf(`{"admin": {"listen": %q}, "apps": {"http": {"servers": {%s}}}}`, c.admin, strings.Join(servers, ", "))
}

// startJSON starts Caddy with a JSON config.
func (c *caddyProcess) startJSON(t testing.TB, config string) {
	t.Helper()
	path := filepath.Join(c.dir, "caddy.json")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, "run", "--config", path)
}

// loadJSON loads a JSON config, though it be the same as before, and returns
// Caddy's error.
func (c *caddyProcess) loadJSON(config string) error {
	return c.load("application/json", config)
}

// hanging returns a health handler that answers when the gate opens.
func hanging(gate <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
}

// The first check of every backend takes 800 ms and a request comes at once:
// it waits for the first result and is served.
func TestCase_t653(t *testing.T) {
	t.Parallel()
	slowly := func(http.ResponseWriter, *http.Request) { time.Sleep(800 * time.Millisecond) }
	b1, b2 := newBackend(t, slowly, nil), newBackend(t, slowly, nil)
	site, url := balancedSite(t, addrs(b1, b2))
	startCaddy(t, site)
	start := time.Now()
	status, body := get(t, url)
	if took := time.Since(start); status != http.StatusOK || took > 800*time.Millisecond+lenient(margin) {
		t.Errorf("status %d after %s: %s", status, took, body)
	}
}

// While first checks hang, requests wait for start_wait and no longer: with 0
// they are answered at once.
func TestStartWait(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(gate) }))
	b := newBackend(t, hanging(gate), nil)
	short, shortURL := balancedSite(t, b.addr, "name short", "start_wait 300ms")
	none, noneURL := balancedSite(t, b.addr, "name none", "start_wait 0")
	startCaddy(t, short+none)

	// the checks under way are waited for as if requests had asked for them
	const asked = 100 * time.Millisecond
	for _, test := range []struct {
		url  string
		wait time.Duration
	}{{noneURL, 0}, {shortURL, 300 * time.Millisecond}} {
		start := time.Now()
		status, _, header := getHeader(t, test.url)
		took := time.Since(start)
		if status != http.StatusServiceUnavailable || took < test.wait || took > test.wait+asked+lenient(margin) {
			t.Errorf("start_wait %s: status %d after %s", test.wait, status, took)
		}
		if header.Get("Retry-After") != "1" {
			t.Errorf("start_wait %s: header %v", test.wait, header)
		}
	}
}

// A thousand requests may wait for first results; those beyond are answered
// at once, and when the results are there, all that wait are served.
func TestStartWaitIsBounded(t *testing.T) {
	t.Parallel()
	const waiting, beyond = 1000, 50
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	b := newBackend(t, hanging(gate), nil)
	// a thousand dials at once may take long
	site, url := balancedSite(t, b.addr, "start_wait 1m", "health_timeout 1m", "transport http {", "dial_timeout 1m", "}")
	startCaddy(t, site)
	t.Cleanup(open)

	var answers sync.WaitGroup
	var served, refused, other atomic.Int64
	for range waiting + beyond {
		conn := rawRequest(t, url, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
		answers.Go(func() {
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			switch {
			case err != nil:
				other.Add(1)
				t.Error(err)
			case resp.StatusCode == http.StatusOK:
				served.Add(1)
			case resp.StatusCode == http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				other.Add(1)
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	eventually(t, "those beyond are answered", func() bool { return refused.Load()+other.Load() >= beyond })
	if n := served.Load(); n > 0 {
		t.Errorf("%d served without a result", n)
	}
	start := time.Now()
	status, err := quietGet(url)
	if took := time.Since(start); status != http.StatusServiceUnavailable || took > 100*time.Millisecond+lenient(margin) {
		t.Errorf("one more: status %d after %s, %v", status, took, err)
	}
	open()
	answers.Wait()
	if served.Load() != waiting || refused.Load() != beyond {
		t.Errorf("%d served, %d refused", served.Load(), refused.Load())
	}
}

// Every optional field is absent, or every optional object empty, and all
// upstreams fail for a while under load: nothing panics, and when they are
// well again, requests are served.
func TestCase_c2516(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	serve := func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() {
			hangUp(w, r)
		}
	}
	b1, b2 := newBackend(t, serve, serve), newBackend(t, serve, serve)
	c := newCaddy(t)
	addr := freeAddr(t)
	started := false
	check := func() {
		for _, b := range []*backend{b1, b2} {
			c.api(t, http.MethodPost, "/load_balance/check?upstream="+b.addr)
		}
	}
	for _, test := range []struct {
		fields string
		broken bool // by the config: the upstreams never pass a check
	}{
		{"", false},
		{`, "load_balancing": {}`, false},
		{`, "health_checks": {}`, false},
		{`, "health_checks": {"active": {}}`, false},
		{`, "health_checks": {"passive": {}}`, false},
		{`, "load_balancing": {}, "health_checks": {"active": {}, "passive": {}}`, false},
		{`, "load_balancing": {"selection_policy": {"policy": "round_robin"}}`, false},
		{`, "transport": {"protocol": "http"}`, false},
		{`, "transport": {"protocol": "http", "tls": {}}`, true},
	} {
		config := c.jsonConfig(map[string]string{
			addr: fmt.Sprintf(`{"handler": "load_balance", "upstreams": [{"dial": %q}, {"dial": %q}]%s}`, b1.addr, b2.addr, test.fields),
		})
		if !started {
			c.startJSON(t, config)
			started = true
		} else if err := c.loadJSON(config); err != nil {
			t.Fatalf("%s: %v", test.fields, err)
		}
		want := http.StatusOK
		if test.broken {
			want = http.StatusServiceUnavailable
		}
		eventually(t, test.fields+" is served", func() bool {
			status, _ := getAgain(t, "http://"+addr)
			return status == want
		})
		sick.Store(true)
		check()
		l := startLoad("http://"+addr, http.MethodGet, "", 200, patience)
		l.waitDone(t, 20)
		c.waitStatus(t, "down", b1.addr, b2.addr)
		l.waitDone(t, 10)
		l.finish()
		for _, failed := range l.failures() {
			if !strings.HasSuffix(failed, "status 502") && !strings.HasSuffix(failed, "status 503") {
				t.Errorf("%s: %s", test.fields, failed)
			}
		}
		sick.Store(false)
		check()
	}
}

// A pool without upstreams is accepted with a warning and answers 503.
func TestNoUpstreams(t *testing.T) {
	t.Parallel()
	site, url := balancedSite(t, "")
	c := startCaddy(t, site)
	if status, body, header := getHeader(t, url); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "" {
		t.Errorf("status %d, header %v: %s", status, header, body)
	}
	if lines := c.logged("no upstreams are configured: every request will be answered with 503"); len(lines) != 1 || lines[0]["level"] != "warn" {
		t.Errorf("warnings: %v", lines)
	}
}

// A new config fails to load: what is known stays as it is, the old config
// goes on checking, and the new one's upstreams are not checked.
func TestCase_t11836(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	addr := freeAddr(t)
	uri := "/checked-by-" + addr
	var fresh atomic.Int64 // checks of the new config's upstream
	added := newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == uri { // not by a stranger, whose upstream once had this port
			fresh.Add(1)
		}
	}, nil)
	well, nothing := newBackend(t, nil, nil), newBackend(t, nil, answer(http.StatusNotFound))
	sick := newBackend(t, answer(http.StatusInternalServerError), nil)
	c := newCaddy(t)
	handler := func(upstreams, active string) string {
		return fmt.Sprintf(`{"handler": "load_balance", "name": "pool", "upstreams": [%s], "health_checks": {"active": {"uri": %q%s}}}`, upstreams, uri, active)
	}
	c.startJSON(t, c.jsonConfig(map[string]string{
		addr: handler(fmt.Sprintf(`{"dial": %q}, {"dial": %q}`, well.addr, sick.addr), `, "interval": "50ms", "increment": "1m", "max_interval": "10m"`),
	}))
	c.waitStatus(t, "up", well.addr)
	c.waitStatus(t, "down", sick.addr)
	before := c.upstream(t, sick.addr)

	upstreams := fmt.Sprintf(`{"dial": %q}, {"dial": %q}, {"dial": %q}`, added.addr, sick.addr, well.addr)
	good := handler(upstreams, `, "interval": "10ms", "increment": "0s"`)
	unused := freeAddr(t)
	for _, test := range []struct {
		name, config string
		// late configs fail after they have started, so that checks may have
		// begun
		late bool
	}{
		{"unknown module", c.jsonConfig(map[string]string{addr: good, unused: `{"handler": "no_such_handler"}`}), false},
		{"bad value", c.jsonConfig(map[string]string{addr: handler(upstreams, `, "interval": "-1s"`)}), false},
		{"address in use", c.jsonConfig(map[string]string{addr: good, taken.Addr().String(): `{"handler": "static_response"}`}), false},
		{"fails after its start", strings.Replace(c.jsonConfig(map[string]string{addr: good}), `{"listen": `,
			fmt.Sprintf(`{"config": {"load": {"module": "http", "url": %q}}, "listen": `, nothing.URL), 1), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := c.loadJSON(test.config); err == nil {
				t.Fatal("it loads")
			}
			if n := fresh.Load(); n > 0 && !test.late {
				t.Errorf("%d checks", n)
			}
			shown := c.upstreams(t)
			if len(shown) != 2 || shown[0].Address != well.addr || !shown[0].InRotation || shown[1].Address != sick.addr {
				t.Fatalf("%+v", shown)
			}
			after := shown[1]
			if after.Status != before.Status || after.Failures != before.Failures || after.DelayMS != before.DelayMS ||
				!after.NextCheck.Equal(*before.NextCheck) || !after.Since.Equal(*before.Since) {
				t.Errorf("%+v\nbefore: %+v", after, before)
			}
			fresh.Store(0)
			checks := well.probes.Load()
			eventually(t, "the old config goes on checking", func() bool { return well.probes.Load() >= checks+3 })
			most := int64(0)
			if test.late {
				most = 1 // on its way when the config failed
			}
			if n := fresh.Load(); n > most {
				t.Errorf("%d checks of the new config's upstream", n)
			}
			if status, body := getAgain(t, "http://"+addr); status != http.StatusOK || body != well.addr {
				t.Errorf("status %d: %s", status, body)
			}
		})
	}
}

// The backends are sites of the same Caddy, as in the quickstart example: the
// first checks leave when they are up, and no line ever says that one is down.
func TestQuickstartHasNoFalseStart(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs(filepath.Join("..", "examples", "quickstart", "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(freeAddr(t))
	url := "http://localhost:" + port // its backends go by that name, too
	env := "PORT=" + port + "\n"
	var backends []string
	for i := range 3 {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		env += fmt.Sprintf("BACKEND%d=%s\n", i+1, port)
		backends = append(backends, "localhost:"+port)
	}
	c := newCaddy(t)
	envFile := filepath.Join(c.dir, "env")
	if err := os.WriteFile(envFile, []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, "run", "--envfile", envFile, "--config", example)
	for range 6 {
		if status, body := get(t, url); status != http.StatusOK || !strings.HasPrefix(body, "hello from backend") {
			t.Errorf("status %d: %s", status, body)
		}
	}
	c.waitStatus(t, "up", backends...)
	if lines := c.logged("upstream is down"); len(lines) > 0 {
		t.Errorf("%v", lines)
	}
	if lines := c.logged("upstream is up"); len(lines) != 3 {
		t.Errorf("%d lines say that one is up", len(lines))
	}
}
