package integration

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	weakrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// Tests of what a check sends, where to, and which answers pass it.

// brisk makes checks quick and regular.
const brisk = "health_interval 100ms\nhealth_jitter 0\n"

// A sight is a request as a backend saw it.
type sight struct {
	at                              time.Time
	method, uri, host, proto, body  string
	serverName, client, contentType string
	header                          http.Header
}

// A witness is a backend that remembers what it saw.
type witness struct {
	addr string // to dial, as a Caddyfile has it

	mu   sync.Mutex
	seen []sight
}

// newWitness starts a backend that answers with serve, or with its address if
// it is nil. It speaks HTTP/1.1 and h2c.
func newWitness(t testing.TB, serve http.HandlerFunc) *witness {
	t.Helper()
	return newWitnessOn(t, listenStable(t), serve)
}

// newWitnessOn starts a backend on a listener.
func newWitnessOn(t testing.TB, ln net.Listener, serve http.HandlerFunc) *witness {
	t.Helper()
	w := &witness{addr: ln.Addr().String()}
	if ln.Addr().Network() == "unix" {
		w.addr = "unix/" + w.addr
	}
	server := &http.Server{Protocols: new(http.Protocols), ErrorLog: noLog, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.see(r)
		if serve != nil {
			serve(rw, r)
			return
		}
		_, _ = io.WriteString(rw, w.addr)
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	return w
}

func (w *witness) see(r *http.Request) {
	s := sight{
		at: time.Now(), method: r.Method, uri: r.RequestURI, host: r.Host, proto: r.Proto,
		client: r.RemoteAddr, contentType: r.Header.Get("Content-Type"), header: r.Header.Clone(),
	}
	if r.TLS != nil {
		s.serverName = r.TLS.ServerName
	}
	if r.ContentLength > 0 && r.ContentLength < 1<<16 {
		body, _ := io.ReadAll(r.Body)
		s.body = string(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
}

// sights returns what the witness saw and what is true for, nil for all.
func (w *witness) sights(what func(sight) bool) []sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []sight
	for _, s := range w.seen {
		if what == nil || what(s) {
			list = append(list, s)
		}
	}
	return list
}

func (w *witness) probes() []sight { return w.sights(isProbe) }

func (w *witness) requests() []sight { return w.sights(func(s sight) bool { return !isProbe(s) }) }

// probe returns the first check that the witness sees.
func (w *witness) probe(t testing.TB) sight {
	t.Helper()
	eventually(t, w.addr+" is checked", func() bool { return len(w.sights(nil)) > 0 })
	return w.sights(nil)[0]
}

func isProbe(s sight) bool { return s.header.Get("User-Agent") == healthcheck.UserAgent }

// noLog keeps the errors that clients provoke out of the tests' output.
var noLog = log.New(io.Discard, "", 0)

// listenUnix opens a unix socket; its path is short enough for any system.
func listenUnix(t testing.TB) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "lb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// refusedAddr returns an address that refuses connections until the end of
// the test: it is in use by the near end of another connection.
func refusedAddr(t testing.TB) string {
	t.Helper()
	conn, err := net.Dial("tcp", listenStable(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

// A rawBackend is a backend below HTTP.
type rawBackend struct {
	addr     string
	accepted atomic.Int64
}

// newRaw starts a backend that handles its connections with serve and closes
// them when it returns.
func newRaw(t testing.TB, serve func(conn net.Conn)) *rawBackend {
	t.Helper()
	ln := listenStable(t)
	b := &rawBackend{addr: ln.Addr().String()}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			b.accepted.Add(1)
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				serve(conn)
			}()
		}
	}()
	return b
}

// replies returns the serve function of a backend that answers every request
// with a text and closes the connection.
func replies(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// stable remembers the addresses that listenStable has given out, claims counts
// them.
var (
	stable sync.Map
	claims atomic.Int64
)

// claim reports whether nobody has had the address. When most have been had,
// as after many runs in one process, those of tests long over are free again.
func claim(addr string) bool {
	if claims.Add(1) > 15_000 {
		claims.Store(0)
		stable.Clear()
	}
	_, taken := stable.LoadOrStore(addr, true)
	return !taken
}

// listenStable opens a listener on loopback, on a port below those that the
// system gives to clients and to those who want any port: nobody else's past
// or future port, so that nobody else's checks go there.
func listenStable(t testing.TB) net.Listener {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+weakrand.IntN(20000))
		if !claim(addr) {
			continue
		}
		if ln, err := net.Listen("tcp", addr); err == nil {
			t.Cleanup(func() { _ = ln.Close() })
			return ln
		}
	}
	t.Fatal("no port is free")
	return nil
}

// launch starts a Caddy with a Caddyfile, as startCaddy does.
func launch(t testing.TB, sites string, global ...string) *caddyProcess {
	t.Helper()
	c := newCaddy(t)
	c.start(t, "run", "--adapter", "caddyfile", "--config", c.write(t, sites, global...))
	return c
}

// site returns a site whose only handler is a load_balance with the options.
func site(addr, options string) string {
	return fmt.Sprintf("http://%s {\n\tload_balance {\n%s\n}\n}\n", addr, options)
}

// to returns the options of a pool of those upstreams.
func to(upstreams string, options ...string) string {
	return "to " + upstreams + "\n" + strings.Join(options, "\n")
}

// row returns what the admin API shows of the first upstream of a pool.
func (c *caddyProcess) row(t testing.TB, pool string) admin.Upstream {
	t.Helper()
	_, body := c.ask(t, http.MethodGet, "/load_balance/upstreams?pool="+url.QueryEscape(pool), nil)
	var rows []admin.Upstream
	if err := json.Unmarshal([]byte(body), &rows); err != nil || len(rows) == 0 {
		t.Fatalf("no pool %s: %v: %s", pool, err, body)
	}
	return rows[0]
}

// waitRow waits until a pool with one upstream has had a result, and returns
// what is shown then.
func (c *caddyProcess) waitRow(t testing.TB, pool string) admin.Upstream {
	t.Helper()
	var row admin.Upstream
	eventually(t, pool+" has a result", func() bool {
		row = c.row(t, pool)
		return row.LastCheck != nil
	})
	return row
}

// warnings returns the log lines at level warn that contain the text.
func (c *caddyProcess) warnings(text string) []string {
	var found []string
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// An authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM of its own certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateTemplate("private authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca := &authority{cert: cert, key: key, file: filepath.Join(t.TempDir(), "root.pem")}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(ca.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return ca
}

// serverConfig returns the TLS config of a server of that name.
func (ca *authority) serverConfig(t testing.TB, name string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateTemplate(name)
	template.DNSNames = []string{name}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// Every option that shapes a check, against a backend that says what it got.
func TestProbeOptions(t *testing.T) {
	t.Parallel()
	page := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name, options string
		serve         http.HandlerFunc
		reason        string // empty: passes
		check         func(s sight, w *witness) bool
	}{
		{name: "nothing given", check: func(s sight, w *witness) bool {
			return s.method == "GET" && s.uri == "/" && s.host == w.addr && s.body == "" && isProbe(s)
		}},
		{name: "nothing given, 500", serve: answer(500)},
		{name: "nothing given, 404", serve: answer(404)},
		{name: "nothing given, 302", serve: answer(302)},
		{name: "nothing given, 204", serve: answer(204)},

		{name: "uri", options: "health_uri /health", check: func(s sight, _ *witness) bool { return s.uri == "/health" }},
		{name: "uri, 404", options: "health_uri /health", serve: answer(404), reason: "status 404"},
		{name: "uri, 500", options: "health_uri /health", serve: answer(500), reason: "status 500"},
		{name: "uri, 299", options: "health_uri /health", serve: answer(299)},
		{name: "uri, 304", options: "health_uri /health", serve: answer(304), reason: "status 304"},
		{name: "uri with query", options: "health_uri /a/b?c=d&e=%2F+f", check: func(s sight, _ *witness) bool { return s.uri == "/a/b?c=d&e=%2F+f" }},
		{name: "uri with escapes", options: "health_uri /a%2Fb%20c", check: func(s sight, _ *witness) bool { return s.uri == "/a%2Fb%20c" }},
		{name: "uri without a slash", options: "health_uri health?x", check: func(s sight, _ *witness) bool { return s.uri == "/health?x" }},
		{name: "uri of a query only", options: "health_uri ?x=y", check: func(s sight, _ *witness) bool { return s.uri == "/?x=y" }},
		{name: "path", options: "health_path /path", check: func(s sight, _ *witness) bool { return s.uri == "/path" }},
		{name: "path, 503", options: "health_path /path", serve: answer(503), reason: "status 503"},

		{name: "method", options: "health_method HEAD", check: func(s sight, _ *witness) bool { return s.method == "HEAD" }},
		{
			name:    "request body",
			options: "health_method POST\nhealth_headers {\nContent-Type application/json\n}\nhealth_request_body `{\"ping\": {\"deep\": true}, \"list\": [\"{}\", \"{unknown}\"]}`",
			check: func(s sight, _ *witness) bool {
				return s.method == "POST" && s.body == `{"ping": {"deep": true}, "list": ["{}", "{unknown}"]}` && s.contentType == "application/json"
			},
		},
		{
			name:    "placeholder in the request body",
			options: "health_method PUT\nhealth_request_body `{\"to\":\"{http.reverse_proxy.active.target_upstream}\"}`",
			check:   func(s sight, w *witness) bool { return s.body == `{"to":"`+w.addr+`"}` },
		},

		{
			name: "headers", options: "health_headers {\nX-Two a b\nX-One {http.reverse_proxy.active.target_upstream}\n}",
			check: func(s sight, w *witness) bool {
				return slices.Equal(s.header["X-Two"], []string{"a", "b"}) && s.header.Get("X-One") == w.addr && isProbe(s)
			},
		},
		{
			name: "other User-Agent", options: "health_headers {\nUser-Agent monitor/1\n}",
			check: func(s sight, _ *witness) bool {
				return slices.Equal(s.header["User-Agent"], []string{"monitor/1"})
			},
		},
		{name: "other host", options: "health_headers {\nHost app.internal\n}", check: func(s sight, _ *witness) bool { return s.host == "app.internal" }},
		{name: "other host in lower case", options: "health_headers {\nhost app.internal\n}", check: func(s sight, _ *witness) bool { return s.host == "app.internal" }},

		{name: "status 404, 404", options: "health_status 404", serve: answer(404)},
		{name: "status 404, 200", options: "health_status 404", reason: "status 200"},
		{name: "status 2xx, 200", options: "health_status 2xx"},
		{name: "status 2xx, 299", options: "health_status 2xx", serve: answer(299)},
		{name: "status 2xx, 300", options: "health_status 2xx", serve: answer(300), reason: "status 300"},
		{name: "status 4xx, 499", options: "health_status 4xx", serve: answer(499)},
		{name: "status 4xx, 500", options: "health_status 4xx", serve: answer(500), reason: "status 500"},
		{name: "status 3xx, 302", options: "health_status 3xx", serve: answer(302)},
		{name: "status and uri", options: "health_status 503\nhealth_uri /x", serve: answer(503)},

		{name: "body", options: "health_body ^all.+well$", serve: page(200, "all is well")},
		{name: "body, other", options: "health_body ^all.+well$", serve: page(200, "all is well, or not"), reason: "body mismatch"},
		{name: "body, empty", options: "health_body .", serve: page(200, ""), reason: "body mismatch"},
		{name: "body, 500", options: "health_body well", serve: page(500, "well"), reason: "status 500"},
		{name: "body and status", options: "health_body well\nhealth_status 500", serve: page(500, "well")},
		{name: "body over two lines", options: `health_body "(?s)first.*last"`, serve: page(200, "first\n"+strings.Repeat("x", 1<<17)+"\nlast")},
	}
	var sites strings.Builder
	witnesses := make([]*witness, len(tests))
	for i, tt := range tests {
		witnesses[i] = newWitness(t, tt.serve)
		sites.WriteString(site(freeAddr(t), to(witnesses[i].addr, fmt.Sprintf("name p%d", i), tt.options)))
	}
	c := launch(t, sites.String())
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row := c.waitRow(t, fmt.Sprintf("p%d", i))
			status := map[bool]string{true: "up", false: "down"}[tt.reason == ""]
			if row.Status != status || row.Reason != tt.reason || row.LastCheck.OK != (tt.reason == "") {
				t.Errorf("got %s (%s, %+v), want %s (%s)", row.Status, row.Reason, row.LastCheck, status, tt.reason)
			}
			if s := witnesses[i].probe(t); tt.check != nil && !tt.check(s, witnesses[i]) {
				t.Errorf("the check was %+v", s)
			}
		})
	}
}

// Only so much of a body is looked at as max_size says.
func TestProbeMaxSize(t *testing.T) {
	t.Parallel()
	w := newWitness(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12345well") })
	c := newCaddy(t)
	c.startHandlers(t, map[string]string{
		freeAddr(t): fmt.Sprintf(`{"handler": "load_balance", "name": "wide", "upstreams": [{"dial": %q}],
			"health_checks": {"active": {"expect_body": "well", "max_size": 9}}}`, w.addr),
		freeAddr(t): fmt.Sprintf(`{"handler": "load_balance", "name": "tight", "upstreams": [{"dial": %q}],
			"health_checks": {"active": {"expect_body": "well", "max_size": 8}}}`, w.addr),
	})
	if row := c.waitRow(t, "wide"); row.Status != "up" {
		t.Errorf("in time: %+v", row)
	}
	if row := c.waitRow(t, "tight"); row.Status != "down" || row.Reason != "body mismatch" {
		t.Errorf("too late: %+v", row)
	}
}

// handlersConfig returns a config with one handler per address.
func (c *caddyProcess) handlersConfig(t testing.TB, handlers map[string]string) string {
	t.Helper()
	servers := make(map[string]any)
	for addr, handler := range handlers {
		servers[addr] = map[string]any{
			"listen":          []string{addr},
			"automatic_https": map[string]any{"disable": true},
			"routes":          []any{map[string]any{"handle": []any{json.RawMessage(handler)}}},
		}
	}
	text, err := json.Marshal(map[string]any{
		"admin": map[string]any{"listen": c.admin},
		"apps":  map[string]any{"http": map[string]any{"servers": servers}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startHandlers starts Caddy with one handler per address.
func (c *caddyProcess) startHandlers(t testing.TB, handlers map[string]string) {
	t.Helper()
	path := filepath.Join(c.dir, "config.json")
	if err := os.WriteFile(path, []byte(c.handlersConfig(t, handlers)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, "run", "--config", path)
}

// A check travels over the pool's own transport: with its authority and its
// server name.
func TestProbePrivateAuthority_c3450(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWitnessOn(t, tls.NewListener(listenStable(t), ca.serverConfig(t, "backend.internal")), nil)
	good, bare, misnamed := freeAddr(t), freeAddr(t), freeAddr(t)
	transport := "transport http {\ntls_trust_pool file %s\ntls_server_name %s\n}"
	c := launch(t, ""+
		site(good, to("https://"+w.addr, "name good", fmt.Sprintf(transport, ca.file, "backend.internal")))+
		site(bare, to("https://"+w.addr, "name bare"))+
		site(misnamed, to("https://"+w.addr, "name misnamed", fmt.Sprintf(transport, ca.file, "other.internal"))))

	if row := c.waitRow(t, "good"); row.Status != "up" {
		t.Errorf("got %+v", row)
	}
	for _, pool := range []string{"bare", "misnamed"} {
		if row := c.waitRow(t, pool); row.Status != "down" || row.Reason != "tls" {
			t.Errorf("%s: got %+v", pool, row)
		}
	}
	if status, body := get(t, "http://"+good); status != 200 || body != w.addr {
		t.Errorf("got status %d, %q", status, body)
	}
	if probe := w.probe(t); probe.serverName != "backend.internal" {
		t.Errorf("the check asked for %q", probe.serverName)
	}
}

// With health_port, checks go only there and traffic never does.
func TestProbePort_c3691_l4_458(t *testing.T) {
	t.Parallel()
	traffic, health := newWitness(t, nil), newWitness(t, nil)
	_, port, err := net.SplitHostPort(health.addr)
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	c := launch(t, site(addr, to(traffic.addr, brisk, "health_port "+port)))
	c.waitStatus(t, "up", traffic.addr)
	for range 20 {
		if status, body := get(t, "http://"+addr); status != 200 || body != traffic.addr {
			t.Fatalf("got status %d, %q", status, body)
		}
	}
	eventually(t, "the port is checked again", func() bool { return len(health.probes()) > 2 })
	if n := len(traffic.probes()); n > 0 {
		t.Errorf("%d checks at the upstream's own port", n)
	}
	if n := len(health.requests()); n > 0 {
		t.Errorf("%d requests at the health port", n)
	}
	if probe := health.probe(t); probe.host != health.addr {
		t.Errorf("the check's Host is %q", probe.host)
	}
}

// A unix socket is checked and served.
func TestProbeUnixSocket_c4231(t *testing.T) {
	t.Parallel()
	w := newWitnessOn(t, listenUnix(t), nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(w.addr, brisk, "health_uri /health")))
	c.waitStatus(t, "up", w.addr)
	if status, body := get(t, "http://"+addr); status != 200 || body != w.addr {
		t.Errorf("got status %d, %q", status, body)
	}
	if probe := w.probe(t); probe.uri != "/health" || probe.host != "localhost" {
		t.Errorf("the check was %+v", probe)
	}
}

// Checks and requests of two unix sockets never travel over each other's idle
// connections.
func TestProbeTwoUnixSockets_c4231(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	well := newWitnessOn(t, listenUnix(t), nil)
	other := newWitnessOn(t, listenUnix(t), func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	addr := freeAddr(t)
	c := launch(t, site(addr, to(well.addr+" "+other.addr,
		"health_interval 10ms\nhealth_jitter 0\nhealth_increment 0\nhealth_max_failures never\nhealth_uri /health",
		"header_up X-Meant {http.reverse_proxy.upstream.address}",
		"health_headers {\nX-Meant {http.reverse_proxy.active.target_upstream}\n}")))
	c.waitStatus(t, "up", well.addr, other.addr)
	for range 3 {
		sick.Store(true)
		c.waitStatus(t, "down", other.addr)
		for range 5 {
			if status, body := get(t, "http://"+addr); status != 200 || body != well.addr {
				t.Fatalf("got status %d, %q", status, body)
			}
		}
		sick.Store(false)
		c.waitStatus(t, "up", other.addr)
		for range 6 {
			get(t, "http://"+addr)
		}
	}
	if row := c.upstream(t, well.addr); row.Status != "up" || row.Failures != 0 {
		t.Errorf("got %+v", row)
	}
	for _, w := range []*witness{well, other} {
		for _, s := range w.sights(nil) {
			if meant := s.header.Get("X-Meant"); !strings.HasSuffix(w.addr, strings.TrimPrefix(meant, "unix/")) {
				t.Fatalf("%s got what was meant for %s: %+v", w.addr, meant, s)
			}
		}
	}
	if lines := c.logged("upstream is down"); len(lines) != 3 {
		t.Errorf("%d transitions to down, want 3", len(lines))
	}
}

// A backend that answers only for its own virtual host gets it by
// health_headers; by default the Host is the upstream's host and port.
func TestProbeVirtualHost_c1556_e2450(t *testing.T) {
	t.Parallel()
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "app.internal" {
			w.WriteHeader(http.StatusMisdirectedRequest)
		}
	}
	named, unnamed := newWitness(t, serve), newWitness(t, serve)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(named.addr, "health_uri /", "health_headers {\nHost app.internal\n}", "header_up Host app.internal"))+
		site(freeAddr(t), to(unnamed.addr, "health_uri /")))
	c.waitStatus(t, "up", named.addr)
	c.waitStatus(t, "down", unnamed.addr)
	if row := c.upstream(t, unnamed.addr); row.Reason != "status 421" {
		t.Errorf("got reason %q", row.Reason)
	}
	if host := unnamed.probe(t).host; host != unnamed.addr {
		t.Errorf("the default Host is %q", host)
	}
	if status, _ := get(t, "http://"+addr); status != 200 {
		t.Errorf("got status %d", status)
	}
}

// A redirect to a login page fails the check and the reason names it; it is
// followed only on request.
func TestProbeRedirect_c6291(t *testing.T) {
	t.Parallel()
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			http.Redirect(w, r, "/login?from=health", http.StatusFound)
		}
	}
	stays, follows, loops := newWitness(t, serve), newWitness(t, serve), newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/health", http.StatusFound)
	})
	c := launch(t, site(freeAddr(t), to(stays.addr, brisk, "health_uri /health"))+
		site(freeAddr(t), to(follows.addr, brisk, "health_uri /health", "health_follow_redirects"))+
		site(freeAddr(t), to(loops.addr, "health_uri /health", "health_follow_redirects")))
	c.waitStatus(t, "down", stays.addr, loops.addr)
	c.waitStatus(t, "up", follows.addr)

	row := c.upstream(t, stays.addr)
	if row.Reason != "status 302" || row.LastCheck.StatusCode != 302 || !strings.Contains(row.LastCheck.Error, "/login?from=health") {
		t.Errorf("got %+v, %+v", row, row.LastCheck)
	}
	for _, s := range stays.sights(nil) {
		if s.uri != "/health" {
			t.Errorf("the redirect was followed: %+v", s)
		}
	}
	followed := follows.sights(func(s sight) bool { return s.uri == "/login?from=health" })
	if len(followed) == 0 || !isProbe(followed[0]) {
		t.Errorf("the redirect was not followed: %+v", followed)
	}
}

// A redirect to the name of the site that all upstreams serve stays with the
// upstream that is checked, on its own connections.
func TestProbeRedirectsApart_c4231(t *testing.T) {
	t.Parallel()
	serve := func(login int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/health":
				http.Redirect(w, r, "http://site.internal/login?by="+url.QueryEscape(r.Header.Get("X-Meant")), http.StatusFound)
			case "/login":
				w.WriteHeader(login)
			}
		}
	}
	for network, newListener := range map[string]func() net.Listener{
		"tcp":  func() net.Listener { return listenStable(t) },
		"unix": func() net.Listener { return listenUnix(t) },
	} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			well, sick := newWitnessOn(t, newListener(), serve(200)), newWitnessOn(t, newListener(), serve(503))
			c := launch(t, site(freeAddr(t), to(well.addr+" "+sick.addr, "health_interval 10ms", "health_increment 0", "health_max_failures never",
				"health_uri /health", "health_follow_redirects", "health_headers {\nX-Meant {http.reverse_proxy.active.target_upstream}\n}")))
			eventually(t, "both are checked often", func() bool { return len(well.sights(nil)) > 40 && len(sick.sights(nil)) > 40 })
			for _, w := range []*witness{well, sick} {
				other := func(s sight) bool {
					return strings.HasPrefix(s.uri, "/login") && s.uri != "/login?by="+url.QueryEscape(w.addr)
				}
				if strays := w.sights(other); len(strays) > 0 {
					t.Errorf("%s got %d checks of the other one, the first %+v", w.addr, len(strays), strays[0])
				}
			}
			if row := c.upstream(t, well.addr); row.Status != "up" || row.Failures != 0 {
				t.Errorf("the one that is well: %+v", row)
			}
			if row := c.upstream(t, sick.addr); row.Status != "down" || row.Reason != "status 503" {
				t.Errorf("the one that is sick: %+v", row)
			}
			if n := len(c.logged("upstream is up")) + len(c.logged("upstream is down")); n != 2 {
				t.Errorf("%d transitions, want 2", n)
			}
		})
	}
}

// An address with a placeholder of the request is served, shown as unchecked,
// warned about once, and never checked.
func TestProbePlaceholderAddress_c6695(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	fixed := newWitness(t, nil)
	const address = "{http.request.header.X-Backend}"
	addr := freeAddr(t)
	c := launch(t, site(addr, to(address+" "+fixed.addr, brisk, "lb_policy first")))
	c.waitStatus(t, "up", address, fixed.addr)
	eventually(t, "the other upstream is checked", func() bool { return len(fixed.probes()) > 3 })

	row := c.upstream(t, address)
	if !row.InRotation || row.Reason != "unchecked" || row.LastCheck != nil || row.NextCheck != nil {
		t.Errorf("got %+v", row)
	}
	if resp, body := getWith(t, "http://"+addr, http.Header{"X-Backend": {w.addr}}); resp.StatusCode != 200 || body != w.addr {
		t.Errorf("got status %d, %q", resp.StatusCode, body)
	}
	if n := len(w.probes()); n > 0 {
		t.Errorf("it was checked %d times", n)
	}
	if warned := c.warnings("cannot be checked"); len(warned) != 1 || !strings.Contains(warned[0], address) {
		t.Errorf("got warnings %q", warned)
	}
	if status, _ := c.api(t, http.MethodPost, "/load_balance/check?upstream="+address); status != 200 {
		t.Errorf("asking for a check: status %d", status)
	}
	if failed := c.logged("check failed"); len(failed) > 0 || len(c.logged("upstream is down")) > 0 {
		t.Errorf("a check failed: %v", failed)
	}
}

// getWith sends a GET request with a header over a connection of its own.
func getWith(t testing.TB, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	return roundTrip(t, &http.Transport{DisableKeepAlives: true}, req)
}

// roundTrip sends a request without following redirects and reads the response.
func roundTrip(t testing.TB, transport http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// Whatever status a health endpoint answers, the check passes or fails.
func TestProbeOddStatus_k15001(t *testing.T) {
	t.Parallel()
	statuses := []int{
		100, 101, 102, 103, 150, 199, 200, 203, 226, 250, 299, 300, 304, 306, 350, 399,
		400, 418, 451, 499, 500, 511, 599, 600, 700, 999,
	}
	var upstreams []string
	for _, status := range statuses {
		text := fmt.Sprintf("HTTP/1.1 %d Odd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
		upstreams = append(upstreams, newRaw(t, replies(text)).addr)
	}
	all := strings.Join(upstreams, " ")
	c := launch(t, site(freeAddr(t), to(all, "name any"))+
		site(freeAddr(t), to(all, "name good", "health_uri /health"))+
		site(freeAddr(t), to(all, "name nines", "health_status 9xx")))

	rows := make(map[string]admin.Upstream) // by pool and address
	eventually(t, "all are decided", func() bool {
		for _, u := range c.upstreams(t) {
			rows[u.Pool+u.Address] = u
			if u.Status == "unknown" {
				return false
			}
		}
		return true
	})
	for i, status := range statuses {
		for pool, passes := range map[string]bool{
			"any":   status >= 200,
			"good":  status >= 200 && status < 300,
			"nines": status >= 900,
		} {
			row := rows[pool+upstreams[i]]
			if status == 101 && pool == "any" { // a final response of its own kind
				passes = row.Status == "up"
			}
			want := map[bool]string{true: "up", false: "down"}[passes]
			if row.Status != want {
				t.Errorf("status %d, pool %s: %s (%s), want %s", status, pool, row.Status, row.Reason, want)
			}
			if reason := fmt.Sprintf("status %d", status); !passes && status >= 200 && row.Reason != reason {
				t.Errorf("status %d, pool %s: reason %q", status, pool, row.Reason)
			}
		}
	}
}

// localhost with a backend that listens on IPv4 only goes into rotation.
func TestProbeLocalhost_radon159(t *testing.T) {
	t.Parallel()
	w := newWitnessOn(t, listenStable(t), nil)
	_, port, err := net.SplitHostPort(w.addr)
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	c := launch(t, site(addr, to("localhost:"+port)))
	c.waitStatus(t, "up", "localhost:"+port)
	if status, body := get(t, "http://"+addr); status != 200 || body != w.addr {
		t.Errorf("got status %d, %q", status, body)
	}
	if host := w.probe(t).host; host != "localhost:"+port {
		t.Errorf("the check's Host is %q", host)
	}
}

// A check that takes longer than the interval runs alone, also when operators
// and requests ask for more.
func TestProbeSlow_t9812(t *testing.T) {
	t.Parallel()
	var running, most, done atomic.Int64
	w := newWitness(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			return
		}
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(300 * time.Millisecond)
		done.Add(1)
	})
	c := launch(t, site(freeAddr(t), to(w.addr, "health_uri /health", "health_interval 30ms", "health_timeout 10s")))
	eventually(t, "four checks are done", func() bool {
		if status, _ := c.api(t, http.MethodPost, "/load_balance/check?upstream="+w.addr); status != 200 {
			t.Fatalf("status %d", status)
		}
		return done.Load() >= 4
	})
	if most.Load() != 1 {
		t.Errorf("%d checks at a time", most.Load())
	}
}

// Endless, huge and broken answers cost bounded memory, and the check ends by
// its timeout.
func TestProbeHugeAnswer(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	var sending atomic.Int64
	pour := func(w io.Writer, size int64) {
		sending.Add(1)
		defer sending.Add(-1)
		block := []byte(strings.Repeat("well well ", 6553))
		for sent := int64(0); size < 0 || sent < size; sent += int64(len(block)) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) { pour(w, -1) }
	gigabyte := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
		pour(w, 1<<30)
	}
	packed := packedZeros(t, 1<<24)
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range 1 << 8 {
			_, _ = w.Write(packed)
		}
	}
	header := func(size int64) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Huge: ")
			pour(conn, size)
			_, _ = io.WriteString(conn, "\r\nContent-Length: 0\r\n\r\n")
		}
	}
	drip := func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Slow: ")
		for {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	const (
		often = "health_interval 300ms\nhealth_increment 0\nhealth_max_failures never"
		once  = "health_interval 1h\nhealth_body never-there" // takes all the processor
	)
	tests := []struct {
		name, upstream, options, status string
		reasons                         []string
	}{
		{"endless", newWitness(t, endless).addr, often, "up", []string{""}},
		{"endless and searched", newWitness(t, endless).addr, once, "down", []string{"timeout"}},
		{"gigabyte", newWitness(t, gigabyte).addr, often, "up", []string{""}},
		{"gigabyte and searched", newWitness(t, gigabyte).addr, once, "down", []string{"timeout", "body mismatch"}},
		{"packed", newWitness(t, bomb).addr, often, "up", []string{""}},
		{"packed and searched", newWitness(t, bomb).addr, once, "down", []string{"timeout", "body mismatch"}},
		{"huge header", newRaw(t, header(12<<20)).addr, often, "down", []string{"error", "timeout"}},
		{"endless header", newRaw(t, header(-1)).addr, often, "down", []string{"error", "timeout"}},
		{"dripping header", newRaw(t, drip).addr, often, "down", []string{"timeout"}},
		{"silence", newRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).addr, often, "down", []string{"timeout"}},
	}
	var sites strings.Builder
	for _, tt := range tests {
		sites.WriteString(site(freeAddr(t), to(tt.upstream, fmt.Sprintf("name %q", tt.name), "health_timeout "+timeout.String(), tt.options)))
	}
	c := launch(t, sites.String())
	for _, tt := range tests {
		if tt.options == once {
			c.waitRow(t, tt.name)
		}
	}
	start := time.Now()
	for _, tt := range tests {
		row := c.row(t, tt.name)
		if tt.options == often {
			row = c.waitNewResult(t, tt.name, start)
		}
		if row.Status != tt.status || !slices.Contains(tt.reasons, row.Reason) {
			t.Errorf("%s: %s (%s), want %s (%q)", tt.name, row.Status, row.LastCheck.Error, tt.status, tt.reasons)
		}
		if took := time.Duration(row.LastCheck.DurationMS * float64(time.Millisecond)); took > timeout+2*time.Second {
			t.Errorf("%s: the check took %s", tt.name, took)
		}
	}
	limit := 256 << 10
	if raceEnabled {
		limit *= 4
	}
	if peak := c.peakKiB(t); peak > limit {
		t.Errorf("caddy took %d KiB of memory, more than %d", peak, limit)
	}
	c.stop(t)
	eventually(t, "nothing is sent any more", func() bool { return sending.Load() == 0 })
}

// packedZeros returns that many zeros, compressed by gzip. It may be repeated.
func packedZeros(t testing.TB, size int) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// waitNewResult waits for a check that begins after start, and returns what is
// shown then.
func (c *caddyProcess) waitNewResult(t testing.TB, pool string, start time.Time) admin.Upstream {
	t.Helper()
	var row admin.Upstream
	eventually(t, pool+" has a new result", func() bool {
		row = c.row(t, pool)
		return row.LastCheck != nil && row.LastCheck.Time.After(start)
	})
	return row
}

// peakKiB returns the most memory that Caddy has had.
func (c *caddyProcess) peakKiB(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Skip("no memory figures here: ", err)
	}
	_, after, found := strings.Cut(string(text), "VmHWM:")
	var peak int
	if _, err := fmt.Sscan(after, &peak); err != nil || !found {
		t.Fatalf("no VmHWM in %s", text)
	}
	return peak
}

// What is no HTTP response fails the check, whatever the options.
func TestProbeNoAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, upstream, reason string }{
		{"refused", refusedAddr(t), "connection refused"},
		{"closed", newRaw(t, func(net.Conn) {}).addr, ""},
		{"closed after the request", newRaw(t, replies("")).addr, "connection closed"},
		{"garbage", newRaw(t, replies("SSH-2.0-OpenSSH_9.6\r\n")).addr, ""},
		{"half a header", newRaw(t, replies("HTTP/1.1 200 OK\r\nX-Hal")).addr, ""},
		{"half a status", newRaw(t, replies("HTTP/1.1 20")).addr, ""},
		{"no number", newRaw(t, replies("HTTP/1.1 abc OK\r\n\r\n")).addr, ""},
		{"no such socket", "unix//nowhere/socket", "no such socket"},
	}
	var sites strings.Builder
	for _, tt := range tests {
		sites.WriteString(site(freeAddr(t), to(tt.upstream, fmt.Sprintf("name %q", tt.name))))
	}
	c := launch(t, sites.String())
	for _, tt := range tests {
		row := c.waitRow(t, tt.name)
		if row.Status != "down" || tt.reason != "" && row.Reason != tt.reason || row.Reason == "" || row.LastCheck.StatusCode != 0 {
			t.Errorf("%s: got %+v, %+v", tt.name, row, row.LastCheck)
		}
	}
}

// health_upstream sends the checks of every upstream elsewhere.
func TestProbeHealthUpstream(t *testing.T) {
	t.Parallel()
	health, one, two := newWitness(t, nil), newWitness(t, nil), newWitness(t, nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(one.addr+" "+two.addr, brisk, "health_uri /health", "health_upstream "+health.addr,
		"health_headers {\nX-Meant {http.reverse_proxy.active.target_upstream}\n}")))
	c.waitStatus(t, "up", one.addr, two.addr)
	for _, w := range []*witness{one, two} {
		meant := health.sights(func(s sight) bool { return s.header.Get("X-Meant") == w.addr })
		if len(meant) == 0 || meant[0].uri != "/health" || meant[0].host != health.addr {
			t.Errorf("checks for %s: %+v", w.addr, meant)
		}
		if n := len(w.probes()); n > 0 {
			t.Errorf("%d checks at the upstream itself", n)
		}
	}
	for range 4 {
		if _, body := get(t, "http://"+addr); body != one.addr && body != two.addr {
			t.Errorf("served by %q", body)
		}
	}
}

// A check carries nothing of any client, and nothing of what is configured
// for requests.
func TestProbeCarriesNothingOfClients(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	w := newWitness(t, func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	addr := freeAddr(t)
	c := launch(t, site(addr, to(w.addr, "health_interval 20ms\nhealth_uri /health",
		"header_up X-Secret {http.request.header.Authorization}", "header_up Host secret.internal")))
	c.waitStatus(t, "up", w.addr)
	client := http.Header{
		"Cookie": {"session=1"}, "Authorization": {"Bearer 1"}, "Referer": {"http://x/"},
		"X-Forwarded-For": {"192.0.2.1"}, "Traceparent": {"00-1-2-01"}, "User-Agent": {"a client"},
	}
	for i := range 40 {
		sick.Store(i%4 == 3) // then requests ask for checks, too
		getWith(t, "http://"+addr+"/page?token=1", client)
	}
	if len(w.requests()) == 0 {
		t.Error("no request came through")
	}
	probes := w.probes()
	if len(probes) == 0 {
		t.Error("no check came through")
	}
	for _, s := range probes {
		for name := range s.header {
			if name != "User-Agent" && name != "Accept-Encoding" {
				t.Fatalf("a check has a header %s: %+v", name, s)
			}
		}
		if s.uri != "/health" || s.host != w.addr || s.body != "" {
			t.Fatalf("the check was %+v", s)
		}
	}
}

// tcp checks open a connection and say nothing; no checks at all connect never.
func TestProbeProtocols(t *testing.T) {
	t.Parallel()
	var said atomic.Int64
	mute := func(conn net.Conn) {
		n, _ := io.Copy(io.Discard, conn)
		said.Add(n)
	}
	tcp, fastcgi, never := newRaw(t, mute), newRaw(t, mute), newRaw(t, mute)
	unix := newWitnessOn(t, listenUnix(t), nil)
	refused, plain := refusedAddr(t), newWitness(t, nil)
	untouched := freeAddr(t)
	c := launch(t, site(freeAddr(t), to(tcp.addr+" "+refused+" "+unix.addr, brisk, "health_protocol tcp"))+
		site(freeAddr(t), to(fastcgi.addr, brisk, "transport fastcgi {\nroot /srv\n}"))+
		site(untouched, to(never.addr+" "+plain.addr, brisk, "health_protocol none", "lb_policy first")))
	c.waitStatus(t, "up", tcp.addr, unix.addr, fastcgi.addr, never.addr, plain.addr)
	c.waitStatus(t, "down", refused)
	if row := c.upstream(t, refused); row.Reason != "connection refused" {
		t.Errorf("got reason %q", row.Reason)
	}
	eventually(t, "tcp is checked again", func() bool { return tcp.accepted.Load() > 3 && fastcgi.accepted.Load() > 3 })
	if said.Load() > 0 || len(unix.sights(nil)) > 0 {
		t.Errorf("tcp checks said something")
	}
	if row := c.upstream(t, never.addr); row.Reason != "unchecked" || row.NextCheck != nil || row.LastCheck != nil {
		t.Errorf("got %+v", row)
	}
	c.api(t, http.MethodPost, "/load_balance/check?upstream="+never.addr)
	if status, _ := c.api(t, http.MethodPost, "/load_balance/check?upstream="+tcp.addr); status != 200 {
		t.Errorf("asking for a check: status %d", status)
	}
	if n := never.accepted.Load(); n > 0 || len(plain.sights(nil)) > 0 {
		t.Errorf("%d connections without checks", n)
	}
	if warned := c.warnings("cannot be checked"); len(warned) > 0 {
		t.Errorf("warned about checks that nobody wants: %q", warned)
	}
}

// HTTP checks of a FastCGI upstream, if wanted, end in a result.
func TestProbeFastCGIOverHTTP(t *testing.T) {
	t.Parallel()
	closes := newRaw(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	c := launch(t, site(freeAddr(t), to(closes.addr, brisk, "health_protocol http", "health_uri /ping", "transport fastcgi {\nroot /srv\n}")))
	c.waitStatus(t, "down", closes.addr)
	if row := c.upstream(t, closes.addr); row.Reason == "panic" || row.Reason == "" {
		t.Errorf("got %+v", row.LastCheck)
	}
}

// An h2c upstream is checked over h2c.
func TestProbeH2C(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to("h2c://"+w.addr, brisk)))
	c.waitStatus(t, "up", w.addr)
	get(t, "http://"+addr)
	for _, s := range w.sights(nil) {
		if s.proto != "HTTP/2.0" {
			t.Errorf("got %+v", s)
		}
	}
}

// An upstream that wants the PROXY protocol gets it with checks, too: from
// this machine, not from a client.
func TestProbeProxyProtocol(t *testing.T) {
	t.Parallel()
	for version, read := range map[string]func(*bufio.Reader) (net.IP, error){"v1": proxyHeaderV1, "v2": proxyHeaderV2} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			sources := make(map[string][]string) // by User-Agent
			b := newRaw(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				source, err := read(in)
				if err != nil {
					return
				}
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				mu.Lock()
				sources[r.UserAgent()] = append(sources[r.UserAgent()], source.String())
				mu.Unlock()
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			})
			addr := freeAddr(t)
			c := launch(t, site(addr, to(b.addr, brisk, "transport http {\nproxy_protocol "+version+"\n}")))
			c.waitStatus(t, "up", b.addr)
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}}
			req, err := http.NewRequest(http.MethodGet, "http://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("User-Agent", "client")
			if resp, body := roundTrip(t, &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, req); resp.StatusCode != 200 || body != "ok" {
				t.Errorf("got status %d, %q", resp.StatusCode, body)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := sources["client"]; !slices.Equal(got, []string{"127.0.0.7"}) {
				t.Errorf("requests come from %q", got)
			}
			if got := slices.Compact(sources[healthcheck.UserAgent]); !slices.Equal(got, []string{"127.0.0.1"}) {
				t.Errorf("checks come from %q", got)
			}
		})
	}
}

// proxyHeaderV1 reads a PROXY header in text and returns the source.
func proxyHeaderV1(in *bufio.Reader) (net.IP, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[0] != "PROXY" || fields[1] != "TCP4" {
		return nil, fmt.Errorf("bad header %q", line)
	}
	return net.ParseIP(fields[2]), nil
}

// proxyHeaderV2 reads a binary PROXY header and returns the source.
func proxyHeaderV2(in *bufio.Reader) (net.IP, error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	if string(head[:12]) != "\r\n\r\n\x00\r\nQUIT\n" || head[12] != 0x21 || head[13] != 0x11 {
		return nil, fmt.Errorf("bad header %x", head)
	}
	rest := make([]byte, binary.BigEndian.Uint16(head[14:]))
	if _, err := io.ReadFull(in, rest); err != nil {
		return nil, err
	}
	if len(rest) < 12 {
		return nil, errors.New("short header")
	}
	return net.IP(rest[:4]), nil
}

// A transport that depends on the request cannot carry checks: its upstreams
// are served unchecked.
func TestProbePlaceholderTransport(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWitnessOn(t, tls.NewListener(listenStable(t), ca.serverConfig(t, "tenant.internal")), nil)
	addr := freeAddr(t)
	port := addr[strings.LastIndex(addr, ":"):]
	c := launch(t, site(port, to("https://"+w.addr, brisk, "transport http {\ntls_server_name {http.request.host}\ntls_trust_pool file "+ca.file+"\n}")))
	row := c.upstream(t, w.addr)
	if row.Status != "up" || row.Reason != "unchecked" || row.LastCheck != nil {
		t.Errorf("got %+v", row)
	}
	resp, body := getWith(t, "http://"+addr, http.Header{"Host": {"tenant.internal"}})
	if resp.StatusCode != 200 || body != w.addr {
		t.Errorf("got status %d, %q", resp.StatusCode, body)
	}
	if probes := w.probes(); len(probes) > 0 {
		t.Errorf("it was checked: %+v", probes)
	}
	if got := w.requests(); len(got) != 1 || got[0].serverName != "tenant.internal" {
		t.Errorf("got %+v", got)
	}
	if warned := c.warnings("cannot be checked"); len(warned) != 1 {
		t.Errorf("got warnings %q", warned)
	}
}

// A check that fails because Caddy has no file descriptors left says nothing
// about the upstream.
func TestProbeOutOfFiles(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	c := launch(t, site(freeAddr(t), to(w.addr, "health_interval 50ms", "transport http {\nkeepalive off\n}")))
	client := &http.Client{Timeout: patience, Transport: new(http.Transport)} // stays connected
	row := func() admin.Upstream {
		t.Helper()
		var rows []admin.Upstream
		if err := json.Unmarshal([]byte(bodyOf(t, client, "http://"+c.admin+"/load_balance/upstreams")), &rows); err != nil || len(rows) != 1 {
			t.Fatalf("got %v, %v", rows, err)
		}
		return rows[0]
	}
	limit := func(files int) {
		t.Helper()
		cmd := exec.Command("prlimit", "--pid", strconv.Itoa(c.cmd.Process.Pid), fmt.Sprintf("--nofile=%d:", files))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("no limits here: %v: %s", err, out)
		}
	}
	eventually(t, "it is up", func() bool { return row().Status == "up" })
	limit(1)
	eventually(t, "checks go wrong", func() bool { return len(c.logged("check had no result")) > 0 || row().Failures > 0 })
	if row := row(); row.Status != "up" || row.Failures != 0 {
		t.Errorf("got %s (%s), %d failures", row.Status, row.Reason, row.Failures)
	}
	limit(1000)
	n := len(w.probes())
	eventually(t, "it is checked again", func() bool { return len(w.probes()) > n })
	eventually(t, "it is up", func() bool { return row().Status == "up" })
}

// A placeholder that does not depend on the request is no obstacle to checks.
func TestProbeGlobalPlaceholder(t *testing.T) {
	t.Parallel()
	w, health, served := newWitness(t, nil), newWitness(t, nil), newWitness(t, nil)
	c := newCaddy(t)
	env := filepath.Join(c.dir, "env")
	if err := os.WriteFile(env, []byte("BACKEND="+w.addr+"\nCHECKER=127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const address = "{env.BACKEND}"
	_, port, _ := net.SplitHostPort(health.addr)
	addr := freeAddr(t)
	sites := site(addr, to(address)) + site(freeAddr(t), to(served.addr, "health_upstream {env.CHECKER}:"+port))
	c.start(t, "run", "--adapter", "caddyfile", "--config", c.write(t, sites), "--envfile", env)
	c.waitStatus(t, "up", address)
	if row := c.upstream(t, address); row.LastCheck == nil || row.Reason != "" {
		t.Errorf("got %+v", row)
	}
	if probe := w.probe(t); probe.host != w.addr {
		t.Errorf("the check's Host is %q", probe.host)
	}
	if status, body := get(t, "http://"+addr); status != 200 || body != w.addr {
		t.Errorf("got status %d, %q", status, body)
	}
	eventually(t, served.addr+" has a result", func() bool { return c.upstream(t, served.addr).LastCheck != nil })
	if row := c.upstream(t, served.addr); row.Status != "up" || len(health.probes()) == 0 || len(served.probes()) > 0 {
		t.Errorf("checked elsewhere: %+v, %+v", row, row.LastCheck)
	}
	if warned := c.warnings("cannot be checked"); len(warned) > 0 {
		t.Errorf("got warnings %q", warned)
	}
}

// A status that no response can have is as good as none: 2xx passes.
func TestProbeStatusBelowZero(t *testing.T) {
	t.Parallel()
	well, sick := newWitness(t, nil), newWitness(t, answer(500))
	c := launch(t, site(freeAddr(t), to(well.addr+" "+sick.addr, "health_uri /", "health_status -1")))
	c.waitStatus(t, "up", well.addr)
	c.waitStatus(t, "down", sick.addr)
}

// The header fields of a check are one, however they are spelled in JSON.
func TestProbeHeaderSpellings(t *testing.T) {
	t.Parallel()
	w := newWitness(t, nil)
	c := newCaddy(t)
	c.startHandlers(t, map[string]string{
		freeAddr(t): fmt.Sprintf(`{"handler": "load_balance", "upstreams": [{"dial": %q}], "health_checks": {"active": {
			"headers": {"x-two": ["a"], "X-Two": ["b"], "X-TWO": ["c"], "host": ["app.internal"], "user-agent": ["monitor/1"]}}}}`, w.addr),
	})
	c.waitStatus(t, "up", w.addr)
	probe := w.probe(t)
	values := slices.Sorted(slices.Values(probe.header["X-Two"]))
	if !slices.Equal(values, []string{"a", "b", "c"}) || probe.host != "app.internal" || !slices.Equal(probe.header["User-Agent"], []string{"monitor/1"}) {
		t.Errorf("the check was %+v", probe)
	}
}
