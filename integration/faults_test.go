package integration

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// margin is how much later than due something may happen on a busy machine.
const margin = 500 * time.Millisecond

// paced returns a rate of requests, or less where the race detector makes
// each of them cost many times as much.
func paced(perSec int) int {
	if raceEnabled {
		return perSec / 4
	}
	return perSec
}

// lenient returns a bound on a time, or a wider one where the race detector
// slows everything down.
func lenient(d time.Duration) time.Duration {
	if raceEnabled {
		return 4 * d
	}
	return d
}

// balancedSite returns a site that balances over the upstreams, and its URL.
func balancedSite(t testing.TB, upstreams string, options ...string) (site, url string) {
	t.Helper()
	addr := freeAddr(t)
	return siteAt(addr, upstreams, options...), "http://" + addr
}

// siteAt returns a site that listens at addr and balances over the upstreams.
func siteAt(addr, upstreams string, options ...string) string {
	_, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf(":%s {\n\tload_balance %s {\n\t\t%s\n\t}\n}\n", port, upstreams, strings.Join(options, "\n\t\t"))
}

// refusing returns an address that refuses connections until the end of the
// test: a socket is bound to it, but does not listen.
func refusing(t testing.TB) string {
	t.Helper()
	fd, addr := boundSocket(t)
	t.Cleanup(func() { syscall.Close(fd) })
	return addr
}

func boundSocket(t testing.TB) (fd int, addr string) {
	t.Helper()
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// dropping returns an address that drops the packets of new connections, as
// Linux does when the queue of a listener that accepts nothing is full.
func dropping(t testing.TB) string {
	t.Helper()
	fd, addr := boundSocket(t)
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(os.NewSyscallError("listen", err))
	}
	for range 10 {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("the queue of a listener does not fill up here")
	return ""
}

// hangUp accepts a request and closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}

// switched returns a health handler that says 200 while on is true, else 503.
func switched(on *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !on.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

// loggedAt returns when the first line with the message about the upstream
// was logged after since, and false if there is none.
func (c *caddyProcess) loggedAt(message, upstream string, since time.Time) (time.Time, bool) {
	for _, line := range c.logged(message) {
		ts, _ := line["ts"].(float64)
		at := time.UnixMicro(int64(ts * 1e6))
		if line["upstream"] == upstream && !at.Before(since.Truncate(time.Microsecond)) {
			return at, true
		}
	}
	return time.Time{}, false
}

// waitLogged waits for that line.
func (c *caddyProcess) waitLogged(t testing.TB, message, upstream string, since time.Time) time.Time {
	t.Helper()
	var at time.Time
	eventually(t, message+": "+upstream, func() bool {
		var ok bool
		at, ok = c.loggedAt(message, upstream, since)
		return ok
	})
	return at
}

// of returns what the admin API shows of an address in a pool.
func (c *caddyProcess) of(t testing.TB, pool, address string) admin.Upstream {
	t.Helper()
	for _, u := range c.upstreams(t) {
		if u.Pool == pool && u.Address == address {
			return u
		}
	}
	t.Fatalf("no upstream %s in a pool %s", address, pool)
	return admin.Upstream{}
}

// waitInRotation waits until the upstreams get requests.
func (c *caddyProcess) waitInRotation(t testing.TB, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		eventually(t, address+" is in rotation", func() bool { return c.upstream(t, address).InRotation })
	}
}

// waitStatusIn waits until the upstreams of a pool have the status.
func (c *caddyProcess) waitStatusIn(t testing.TB, pool, status string, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		eventually(t, address+" is "+status, func() bool { return settled(c.of(t, pool, address), status) })
	}
}

// waitDone waits until the load has had n more answers.
func (l *load) waitDone(t testing.TB, n int) {
	t.Helper()
	until := l.done.Load() + int64(n)
	eventually(t, fmt.Sprintf("%d more requests are done", n), func() bool { return l.done.Load() >= until })
}

// failures returns what failed so far.
func (l *load) failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failed)
}

// requireNoneLost fails the test unless every request was served.
func (l *load) requireNoneLost(t testing.TB) {
	t.Helper()
	served := 0
	for _, n := range l.served {
		served += n
	}
	if len(l.failed) > 0 || int64(served) != l.done.Load() {
		t.Errorf("%d of %d requests served, %d failed: %.2000v", served, l.done.Load(), len(l.failed), l.failed)
	}
}

// requireShares sends n requests as a load and fails the test unless each of
// the addresses serves an equal share of them, 2 % more or less.
func requireShares(t testing.TB, url string, n int, addresses ...string) {
	t.Helper()
	l := startLoad(url, http.MethodGet, "", paced(500), patience)
	l.waitDone(t, n)
	l.finish()
	l.requireNoneLost(t)
	want := float64(l.done.Load()) / float64(len(addresses))
	for _, address := range addresses {
		if got := float64(l.served[address]); got < want*0.98-1 || got > want*1.02+1 {
			t.Errorf("%s served %.0f, want %.1f: %v", address, got, want, l.served)
		}
	}
}

// startBackends starts n backends that take the delay to answer.
func startBackends(t testing.TB, n int, delay time.Duration) (backends []*backendProcess, addresses []string) {
	t.Helper()
	for range n {
		b := startBackend(t, delay)
		backends = append(backends, b)
		addresses = append(addresses, b.addr)
	}
	return backends, addresses
}

// Three times one of three backends is killed under load, at a random phase
// of its checks, and restarted: no GET fails, it leaves rotation in
// milliseconds, and one delay of the ladder after its return it has its third.
func TestKilledBackendCostsNoGET(t *testing.T) {
	const interval = 500 * time.Millisecond
	backends, addresses := startBackends(t, 3, 50*time.Millisecond)
	site, url := balancedSite(t, strings.Join(addresses, " "),
		"health_uri /health", "health_interval 500ms", "health_increment 500ms")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)

	l := startLoad(url, http.MethodGet, "", paced(500), patience)
	var detected []time.Duration
	for _, b := range backends {
		l.waitDone(t, paced(500)/4+rand.IntN(paced(500)/2))
		killed := time.Now()
		b.kill()
		took := c.waitLogged(t, "upstream is down", b.addr, killed).Sub(killed)
		detected = append(detected, took)
		l.waitDone(t, rand.IntN(paced(500)))
		delayMS := c.upstream(t, b.addr).DelayMS
		starting := time.Now()
		b.start(t)
		started := time.Now()
		// one more check may have failed before the backend listened
		delay := time.Duration(max(delayMS, c.upstream(t, b.addr).DelayMS)) * time.Millisecond
		back := c.waitLogged(t, "upstream is up", b.addr, starting).Sub(started)
		if most := delay*11/10 + lenient(margin); back > most || delay < 2*interval {
			t.Errorf("back %s after its restart, the delay was %s", back, delay)
		}
		t.Logf("down %s after the kill, up %s after the restart, delay %s", took, back, delay)
	}
	l.waitDone(t, paced(200))
	l.finish()
	l.requireNoneLost(t)
	if n := l.redials.Load(); n > 0 {
		t.Errorf("%d connections to Caddy broke", n)
	}
	// on a busy machine anything may take long once, but not thrice
	if slices.Min(detected) > lenient(50*time.Millisecond) || slices.Max(detected) > lenient(interval)+l.slow {
		t.Errorf("down after %s", detected)
	}
	requireShares(t, url, 600, addresses...)
	t.Logf("%d GETs, %d failed, slowest %s", l.done.Load(), len(l.failed), l.slow)
}

// With the default delays a killed backend has its third again within 10 s.
func TestKilledBackendReturnsByDefaults(t *testing.T) {
	t.Parallel()
	backends, addresses := startBackends(t, 3, 0)
	site, url := balancedSite(t, strings.Join(addresses, " "), "health_uri /health")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)

	l := startLoad(url, http.MethodGet, "", 50, patience)
	killed := time.Now()
	backends[1].kill()
	down := c.waitLogged(t, "upstream is down", addresses[1], killed)
	if took := down.Sub(killed); took > time.Second {
		t.Errorf("down %s after the kill", took)
	}
	backends[1].start(t)
	back := c.waitLogged(t, "upstream is up", addresses[1], killed).Sub(down)
	c.waitInRotation(t, addresses...)
	if back < 9*time.Second-margin || back > 11*time.Second+lenient(margin) {
		t.Errorf("up again after %s, want 10 s, 10 %% more or less", back)
	}
	l.finish()
	l.requireNoneLost(t)
	served := get90(t, url)
	for _, address := range addresses {
		if served[address] != 30 {
			t.Errorf("not a third each: %v", served)
		}
	}
}

// get90 sends 90 requests one after the other and counts who served them.
func get90(t testing.TB, url string) map[string]int {
	t.Helper()
	served := make(map[string]int)
	for range 90 {
		status, body := get(t, url)
		if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		served[body]++
	}
	return served
}

// A POST that is on the wire to a backend when it is killed fails, with 502
// and at once; none does that comes when the backend is known to be down.
func TestKilledBackendCostsOnlyPOSTsOnTheWire(t *testing.T) {
	const service = 50 * time.Millisecond
	backends, addresses := startBackends(t, 3, service)
	site, url := balancedSite(t, strings.Join(addresses, " "),
		"health_uri /health", "health_interval 1s", "health_increment 1s")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)

	perSec := paced(500)
	p := startPosts(url, perSec)
	p.waitDone(t, perSec/4+rand.IntN(perSec))
	killed := time.Now()
	backends[2].kill()
	down := c.waitLogged(t, "upstream is down", addresses[2], killed)
	p.waitDone(t, perSec)
	backends[2].start(t)
	c.waitLogged(t, "upstream is up", addresses[2], killed)
	p.waitDone(t, perSec/4)
	p.finish()

	failed := 0
	for _, post := range p.posts {
		if post.status == http.StatusOK {
			continue
		}
		failed++
		if post.status != http.StatusBadGateway || post.start.After(down) || post.end.After(down.Add(lenient(100*time.Millisecond))) {
			t.Errorf("status %d, %v, from %s to %s after the kill", post.status, post.err, post.start.Sub(killed), post.end.Sub(killed))
		}
	}
	onWire := int(float64(perSec)*service.Seconds()/3) + 1
	if most := 2*onWire + 4; failed > most {
		t.Errorf("%d failed, about %d were on the wire", failed, onWire)
	}
	t.Logf("%d of %d POSTs failed, down after %s", failed, len(p.posts), down.Sub(killed))
}

// posts is a steady stream of POST requests that remembers each of them.
type posts struct {
	client *http.Client
	url    string
	perSec int
	stop   chan struct{}
	sent   sync.WaitGroup

	mu    sync.Mutex
	posts []post
}

type post struct {
	start, end time.Time
	status     int
	err        error
}

func startPosts(url string, perSec int) *posts {
	p := &posts{
		client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 512}},
		url:    url, perSec: perSec, stop: make(chan struct{}),
	}
	p.sent.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(perSec))
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
				p.sent.Go(p.one)
			}
		}
	})
	return p
}

func (p *posts) one() {
	sent := post{start: time.Now()}
	sent.status, sent.err = p.send()
	sent.end = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = append(p.posts, sent)
}

func (p *posts) send() (int, error) {
	body := strings.Repeat("x", 2000)
	// without GetBody nothing is sent twice
	req, err := http.NewRequest(http.MethodPost, p.url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(body))
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func (p *posts) waitDone(t testing.TB, n int) {
	t.Helper()
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.posts)
	}
	until := count() + n
	eventually(t, fmt.Sprintf("%d more POSTs are done", n), func() bool { return count() >= until })
}

func (p *posts) finish() {
	close(p.stop)
	p.sent.Wait()
	p.client.CloseIdleConnections()
}

// A backend freezes under load. No GET fails: those it holds are given up
// after response_header_timeout and served elsewhere. After its check has
// timed out it gets no more, and once it thaws nothing of it is left.
func TestFrozenBackend(t *testing.T) {
	const (
		interval = time.Second
		timeout  = time.Second
		headers  = 2 * time.Second
		service  = 50 * time.Millisecond
	)
	backends, addresses := startBackends(t, 3, service)
	site, url := balancedSite(t, strings.Join(addresses, " "),
		"health_uri /health", "health_interval 1s", "health_timeout 1s", "health_increment 200ms",
		"transport http {", "response_header_timeout 2s", "keepalive 300ms", "}")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)
	base := c.goroutines(t)

	perSec := paced(200)
	l := startLoad(url, http.MethodGet, "", perSec, patience)
	l.waitDone(t, perSec/4+rand.IntN(perSec))
	hung := time.Now()
	backends[0].hang()
	most := 0
	eventually(t, "the frozen backend is down", func() bool {
		most = max(most, c.goroutines(t))
		_, ok := c.loggedAt("upstream is down", addresses[0], hung)
		return ok
	})
	detected := c.waitLogged(t, "upstream is down", addresses[0], hung).Sub(hung)
	if detected > interval*11/10+timeout+lenient(margin) {
		t.Errorf("down after %s", detected)
	}
	l.waitDone(t, 10) // whose upstream was chosen before
	requests := c.upstream(t, addresses[0]).Requests
	l.waitDone(t, perSec)
	most = max(most, c.goroutines(t))
	if shown := c.upstream(t, addresses[0]); shown.Requests != requests || shown.Status != "down" {
		t.Errorf("%s, %d requests, %d when it went down", shown.Status, shown.Requests, requests)
	}
	resumed := time.Now()
	backends[0].resume()
	c.waitLogged(t, "upstream is up", addresses[0], resumed)
	l.waitDone(t, perSec/4)
	l.finish()

	l.requireNoneLost(t)
	if bound := headers + service + lenient(margin); l.slow > bound {
		t.Errorf("a request took %s, the bound is %s", l.slow, bound)
	}
	// Each request that waits has two connections with two goroutines each;
	// those that wait are a third of what arrives within headers.
	if bound := base + 5*perSec; most > bound {
		t.Errorf("%d goroutines, %d before; the bound is %d", most, base, bound)
	}
	after := 0
	eventually(t, "goroutines are as before", func() bool {
		after = c.goroutines(t)
		return after <= base+5
	})
	t.Logf("down after %s, slowest of %d %s, goroutines %d, %d at most, %d after", detected, l.done.Load(), l.slow, base, most, after)
}

// Three of four upstreams refuse connections from the start: no request ever
// goes to one of them.
func TestCase_h3298(t *testing.T) {
	t.Parallel()
	good := newBackend(t, nil, nil)
	dead := []string{refusing(t), refusing(t), refusing(t)}
	site, url := balancedSite(t, strings.Join(append(dead, good.addr), " "),
		"health_interval 100ms", "health_increment 0s", "health_jitter 50%", "health_max_failures never")
	c := startCaddy(t, site)
	l := startLoad(url, http.MethodGet, "", paced(200), patience)
	l.waitDone(t, paced(200))
	l.finish()
	l.requireNoneLost(t)
	for _, address := range dead {
		if shown := c.upstream(t, address); shown.Requests != 0 || shown.InRotation || shown.Failures < 2 {
			t.Errorf("%+v", shown)
		}
	}
}

// One of three upstreams is out: the other two get equal shares.
func TestCase_chproxy82(t *testing.T) {
	t.Parallel()
	b1, b2, b3 := newBackend(t, nil, nil), newBackend(t, answer(http.StatusInternalServerError), nil), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(b1, b2, b3), "health_uri /")
	c := startCaddy(t, site)
	c.waitInRotation(t, b1.addr, b3.addr)
	c.waitStatus(t, "down", b2.addr)
	for n := range 51 {
		get(t, url)
		if d := b1.requests.Load() - b3.requests.Load(); d < -1 || d > 1 {
			t.Fatalf("%d and %d after %d requests", b1.requests.Load(), b3.requests.Load(), n+1)
		}
	}
	if n := b2.requests.Load(); n != 0 {
		t.Errorf("the one that is out got %d", n)
	}
}

// A backend is killed and restarted: one check of its recovery later it has
// its third again.
func TestCase_c3290(t *testing.T) {
	t.Parallel()
	backends, addresses := startBackends(t, 3, 0)
	site, url := balancedSite(t, strings.Join(addresses, " "),
		"health_uri /health", "health_interval 300ms", "health_increment 300ms")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)
	killed := time.Now()
	backends[1].kill()
	served := get90(t, url)
	// every request that met it first went on to one of the other two
	met := int(c.upstream(t, addresses[1]).Requests)
	if d := served[addresses[0]] - served[addresses[2]]; served[addresses[1]] != 0 || d < -met-1 || d > met+1 {
		t.Errorf("while it is gone, %d attempts on it: %v", met, served)
	}
	c.waitLogged(t, "upstream is down", addresses[1], killed)
	backends[1].start(t)
	next := c.upstream(t, addresses[1]).NextCheck
	back := c.waitLogged(t, "upstream is up", addresses[1], killed)
	c.waitInRotation(t, addresses...)
	if late := back.Sub(*next); late > lenient(margin) {
		t.Errorf("up %s after its next check was due", late)
	}
	served = get90(t, url)
	for _, address := range addresses {
		if served[address] != 30 {
			t.Errorf("not a third each: %v", served)
		}
	}
}

// A request fails on A, then on B, and is served by C: one error on A, one
// on B, none on C.
func TestCase_h2679(t *testing.T) {
	t.Parallel()
	a, b, third := newBackend(t, nil, hangUp), newBackend(t, nil, hangUp), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b, third), "lb_policy first")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr, third.addr)
	if status, body := get(t, url); status != http.StatusOK || body != third.addr {
		t.Errorf("status %d: %s", status, body)
	}
	for _, want := range []struct {
		addr   string
		errors uint64
	}{{a.addr, 1}, {b.addr, 1}, {third.addr, 0}} {
		if shown := c.upstream(t, want.addr); shown.Requests != 1 || shown.Errors != want.errors || shown.Status != "up" {
			t.Errorf("%+v, want %d errors", shown, want.errors)
		}
	}
}

// A hundred clients hang up while they wait: no error is counted.
func TestCase_c1925(t *testing.T) {
	t.Parallel()
	const clients = 100
	b := newBackend(t, nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	site, url := balancedSite(t, b.addr)
	c := startCaddy(t, site)
	c.waitInRotation(t, b.addr)
	var conns []net.Conn
	for range clients {
		conns = append(conns, rawRequest(t, url, "GET / HTTP/1.1\r\nHost: test\r\n\r\n"))
	}
	eventually(t, "all wait", func() bool { return c.upstream(t, b.addr).InFlight == clients })
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "all are gone", func() bool { return c.upstream(t, b.addr).InFlight == 0 })
	if shown := c.upstream(t, b.addr); shown.Requests != clients || shown.Errors != 0 || shown.Status != "up" {
		t.Errorf("%+v", shown)
	}
}

// rawRequest opens a connection and sends text over it.
func rawRequest(t testing.TB, url, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Clients break off their uploads half-way: no error is counted, whether the
// backend reads on or not.
func TestBrokenUploadIsNoError(t *testing.T) {
	t.Parallel()
	const uploads = 10
	gate := make(chan struct{})
	reading := newBackend(t, nil, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	idle := newBackend(t, nil, func(http.ResponseWriter, *http.Request) { <-gate })
	t.Cleanup(func() { close(gate) })
	readingSite, readingURL := balancedSite(t, reading.addr)
	idleSite, idleURL := balancedSite(t, idle.addr)
	c := startCaddy(t, readingSite+idleSite)
	c.waitInRotation(t, reading.addr, idle.addr)

	half := strings.Repeat("x", 100_000)
	for _, text := range []string{
		"Content-Length: 200000\r\n\r\n" + half,
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", 2*len(half), half),
	} {
		for url, b := range map[string]*backend{readingURL: reading, idleURL: idle} {
			for range uploads {
				before := b.requests.Load()
				conn := rawRequest(t, url, "POST / HTTP/1.1\r\nHost: test\r\n"+text)
				eventually(t, "the upload has arrived", func() bool { return b.requests.Load() > before })
				conn.Close()
			}
		}
	}
	for _, b := range []*backend{reading, idle} {
		eventually(t, "all are gone", func() bool { return c.upstream(t, b.addr).InFlight == 0 })
		if shown := c.upstream(t, b.addr); shown.Requests != 2*uploads || shown.Errors != 0 || shown.Status != "up" {
			t.Errorf("%+v", shown)
		}
	}
}

// An upstream closes an idle connection just as a GET is sent over it: the
// request is served, and nothing is counted.
func TestCase_c6452(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var cut atomic.Int64
	go func() { // answers the first request of a connection, closes it at the second
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if _, err := http.ReadRequest(r); err == nil {
					cut.Add(1)
				}
			}()
		}
	}()
	addr := ln.Addr().String()
	site, url := balancedSite(t, addr)
	c := startCaddy(t, site)
	c.waitInRotation(t, addr)
	for range 20 {
		if status, body := get(t, url); status != http.StatusOK || body != "ok" {
			t.Errorf("status %d: %s", status, body)
		}
	}
	if shown := c.upstream(t, addr); cut.Load() == 0 || shown.Requests != 20 || shown.Errors != 0 || shown.Status != "up" {
		t.Errorf("%d connections closed; %+v", cut.Load(), shown)
	}
}

// An upstream answers 503 and a retry on that is not configured: its own
// status, header and body reach the client.
func TestCase_c6267(t *testing.T) {
	t.Parallel()
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Mine", "yes")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "come back tomorrow")
	}
	b1, b2 := newBackend(t, nil, busy), newBackend(t, nil, busy)
	site, url := balancedSite(t, addrs(b1, b2))
	c := startCaddy(t, site)
	c.waitInRotation(t, b1.addr, b2.addr)
	status, body, header := getHeader(t, url)
	if status != http.StatusServiceUnavailable || body != "come back tomorrow" || header.Get("X-Mine") != "yes" || header.Get("Retry-After") != "" {
		t.Errorf("status %d, header %v: %s", status, header, body)
	}
	if n := b1.requests.Load() + b2.requests.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
	if n := c.upstream(t, b1.addr).Errors + c.upstream(t, b2.addr).Errors; n != 0 {
		t.Errorf("%d errors", n)
	}
}

// The only upstream comes up one second into a request's lb_try_duration of
// two, long before its next scheduled check: the request is served.
func TestCase_c5838(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	site, url := balancedSite(t, addr, "lb_try_duration 2s")
	c := startCaddy(t, site)
	c.waitStatus(t, "down", addr)
	start := time.Now()
	var request sync.WaitGroup
	request.Go(func() {
		status, body, err := tryGet(url)
		took := time.Since(start)
		if status != http.StatusOK || body != addr || took < time.Second || took > 2250*time.Millisecond+lenient(margin) {
			t.Errorf("status %d after %s, %v: %s", status, took, err, body)
		}
	})
	time.Sleep(time.Second) // the scenario's
	newBackendAt(t, addr, nil, nil)
	request.Wait()
}

// An upstream that drops packets, though its checks pass, holds a request for
// dial_timeout; then another one serves it.
func TestCase_c4245(t *testing.T) {
	t.Parallel()
	health, good := newBackend(t, nil, nil), newBackend(t, nil, nil)
	bad := dropping(t)
	_, port, _ := net.SplitHostPort(health.addr)
	site, url := balancedSite(t, bad+" "+good.addr,
		"name dropped", "health_port "+port, "lb_policy first", "lb_try_duration 5s", "transport http {", "dial_timeout 1s", "}")
	checked, checkedURL := balancedSite(t, bad+" "+good.addr, "name checked", "health_timeout 500ms")
	c := startCaddy(t, site+checked)
	for _, address := range []string{bad, good.addr} {
		eventually(t, address+" is in rotation", func() bool { return c.of(t, "dropped", address).InRotation })
	}

	start := time.Now()
	status, body := get(t, url)
	took := time.Since(start)
	if status != http.StatusOK || body != good.addr || took < time.Second || took > time.Second+lenient(margin) {
		t.Errorf("status %d after %s: %s", status, took, body)
	}
	if shown := c.of(t, "dropped", bad); shown.Requests != 1 || shown.Errors != 1 {
		t.Errorf("%+v", shown)
	}

	// where the check meets the same, it never gets a request
	for range 4 {
		start := time.Now()
		if status, body := get(t, checkedURL); status != http.StatusOK || body != good.addr || time.Since(start) > lenient(margin) {
			t.Errorf("status %d after %s: %s", status, time.Since(start), body)
		}
	}
	eventually(t, "its check has timed out", func() bool {
		shown := c.of(t, "checked", bad)
		return shown.Status == "down" && shown.Reason == "timeout" && shown.Requests == 0
	})
}

// An upstream at its max_requests is skipped, stays up and has no failure; if
// all are, a request waits for one within its lb_try_duration.
func TestCase_c5831(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	held := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-gate
		}
		_, _ = io.WriteString(w, r.Host)
	}
	small, big := newBackend(t, nil, held), newBackend(t, nil, nil)
	site, url := balancedSite(t, big.addr, "upstream "+small.addr+" {", "max_requests 1", "}")
	alone, aloneURL := balancedSite(t, "", "name alone", "upstream "+small.addr+" {", "max_requests 1", "}", "lb_try_duration 10s", "lb_try_interval 20ms")
	impatient, impatientURL := balancedSite(t, "", "name impatient", "upstream "+small.addr+" {", "max_requests 1", "}")
	c := startCaddy(t, site+alone+impatient)
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	c.waitInRotation(t, small.addr, big.addr)
	inFlight := func(pool string) int { return c.of(t, pool, small.addr).InFlight }

	var wait sync.WaitGroup
	defer wait.Wait()
	for _, u := range []string{url, aloneURL, impatientURL} {
		wait.Go(func() { quietGet(u + "/held") })
	}
	// round robin may have sent the first one to the other upstream
	for inFlight(big.addr) == 0 {
		if big.requests.Load() > 0 {
			wait.Go(func() { quietGet(url + "/held") })
			eventually(t, "one is held", func() bool { return inFlight(big.addr) == 1 })
		}
	}
	eventually(t, "one is held in each pool", func() bool { return inFlight("alone") == 1 && inFlight("impatient") == 1 })
	before := big.requests.Load()
	for range 10 {
		if status, body := get(t, url); status != http.StatusOK || body != big.addr {
			t.Errorf("status %d: %s", status, body)
		}
	}
	if n := big.requests.Load() - before; n != 10 {
		t.Errorf("the other one got %d of 10", n)
	}
	if shown := c.of(t, big.addr, small.addr); shown.Status != "up" || !shown.InRotation || shown.Failures != 0 || shown.Errors != 0 || shown.InFlight != 1 {
		t.Errorf("%+v", shown)
	}
	if status, _ := get(t, impatientURL); status != http.StatusServiceUnavailable {
		t.Errorf("all full: status %d", status)
	}
	wait.Go(func() {
		if status, err := quietGet(aloneURL); status != http.StatusOK {
			t.Errorf("waiting for a free one: status %d, %v", status, err)
		}
	})
	release()
}

// quietGet is getAgain for other goroutines than the test's.
func quietGet(url string) (int, error) {
	status, _, err := tryGet(url)
	return status, err
}

// getAgain is get that dials again if the connection is reset before any
// answer, as some are while a reload changes listeners.
func getAgain(t testing.TB, url string) (int, string) {
	t.Helper()
	status, body, err := tryGet(url)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func tryGet(url string) (status int, body string, err error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 10 {
		var resp *http.Response
		resp, err = client.Get(url)
		if isReset(err) {
			continue
		}
		if err != nil {
			break
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	return 0, "", err
}

// A websocket is open on one upstream while the other one goes down and up
// ten times, its own once, and the config is reloaded: it is never cut.
func TestCase_c6420(t *testing.T) {
	t.Parallel()
	var b1, b2 *backend
	echo := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	}
	var fit1, fit2 atomic.Bool
	fit1.Store(true)
	fit2.Store(true)
	b1, b2 = newBackend(t, switched(&fit1), echo), newBackend(t, switched(&fit2), echo)
	site, url := balancedSite(t, addrs(b1, b2), "lb_policy first", "health_uri /",
		"health_interval 20ms", "health_increment 0s", "health_max_failures never", "stream_close_delay 1m")
	c := startCaddy(t, site)
	c.waitInRotation(t, b1.addr, b2.addr)

	conn := rawRequest(t, url, "GET /ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	t.Cleanup(func() { conn.Close() })
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || b1.requests.Load() != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	alive := func(when string) {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintln(conn, when)
		if line, err := r.ReadString('\n'); err != nil || line != when+"\n" {
			t.Fatalf("%s: %q, %v", when, line, err)
		}
	}
	alive("before")
	for i := range 10 {
		fit2.Store(false)
		c.waitStatus(t, "down", b2.addr)
		fit2.Store(true)
		c.waitStatus(t, "up", b2.addr)
		alive("flip " + strconv.Itoa(i))
	}
	fit1.Store(false)
	c.waitStatus(t, "down", b1.addr)
	alive("its own upstream is down")
	for range 2 {
		c.reloadCaddyfile(t, site)
		alive("reloaded")
		if shown := c.upstream(t, b1.addr); shown.InFlight != 1 || shown.Errors != 0 {
			t.Errorf("%+v", shown)
		}
	}
	conn.Close()
	eventually(t, "it is closed", func() bool { return c.upstream(t, b1.addr).InFlight == 0 })
}

// trials notes which backends each request, known by its query, has come to.
type trials struct {
	mu    sync.Mutex
	order map[string][]int
}

// failingBackends starts n backends that pass their checks, note requests,
// and close the connection without an answer.
func (tr *trials) failingBackends(t testing.TB, n int) (backends []*backend) {
	t.Helper()
	tr.order = make(map[string][]int)
	for i := range n {
		backends = append(backends, newBackend(t, nil, func(w http.ResponseWriter, r *http.Request) {
			tr.mu.Lock()
			tr.order[r.URL.RawQuery] = append(tr.order[r.URL.RawQuery], i)
			tr.mu.Unlock()
			hangUp(w, r)
		}))
	}
	return backends
}

// requireTries fails the test unless each of the requests came to backends
// that many times, to each of the n once before to one twice, and never to
// one twice in a row.
func (tr *trials) requireTries(t testing.TB, requests, tries, n int) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.order) != requests {
		t.Errorf("%d requests have come", len(tr.order))
	}
	for id, order := range tr.order {
		if len(order) != tries {
			t.Errorf("request %s: %v, want %d tries", id, order, tries)
		}
		first := slices.Sorted(slices.Values(order[:min(len(order), n)]))
		if len(slices.Compact(first)) != min(len(order), n) {
			t.Errorf("request %s: %v, one twice before all had it once", id, order)
		}
		if n > 1 && len(slices.Compact(slices.Clone(order))) != len(order) {
			t.Errorf("request %s: %v, one twice in a row", id, order)
		}
	}
}

// A request that fails everywhere comes to each upstream once, in the limits
// of its retries, and ends with its last error.
func TestRetries(t *testing.T) {
	t.Parallel()
	const requests = 30
	tests := []struct {
		name      string
		upstreams int
		method    string
		option    string
		tries     int
	}{
		{"default, each upstream once", 4, http.MethodGet, "", 4},
		{"default, five retries", 8, http.MethodGet, "", 6},
		{"default, one upstream", 1, http.MethodGet, "", 1},
		{"default, a POST", 4, http.MethodPost, "", 1},
		{"lb_retries 0", 4, http.MethodGet, "lb_retries 0", 1},
		{"lb_retries 2", 4, http.MethodGet, "lb_retries 2", 3},
		{"lb_retries 7, in rounds", 3, http.MethodGet, "lb_retries 7", 8},
		{"random", 4, http.MethodGet, "lb_policy random", 4},
		{"ip_hash", 4, http.MethodGet, "lb_policy ip_hash", 4},
	}
	var sites string
	urls, notes := make([]string, len(tests)), make([]trials, len(tests))
	for i, test := range tests {
		// Caddy's transport replays a GET of its own accord on a connection
		// that it used before: here it has none
		site, url := balancedSite(t, addrs(notes[i].failingBackends(t, test.upstreams)...),
			"name pool"+strconv.Itoa(i), test.option, "transport http {", "keepalive off", "}")
		sites += site
		urls[i] = url
	}
	c := startCaddy(t, sites)
	eventually(t, "all are in rotation", func() bool {
		return !slices.ContainsFunc(c.upstreams(t), func(u admin.Upstream) bool { return !u.InRotation })
	})
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var wait sync.WaitGroup
			for id := range requests {
				wait.Go(func() {
					client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
					req, _ := http.NewRequest(test.method, fmt.Sprintf("%s/?%d", urls[i], id), nil)
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Retry-After") != "" {
						t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
					}
				})
			}
			wait.Wait()
			notes[i].requireTries(t, requests, test.tries, test.upstreams)
			total := uint64(0)
			for _, shown := range c.upstreams(t) {
				if shown.Pool != "pool"+strconv.Itoa(i) {
					continue
				}
				total += shown.Requests
				if shown.Errors != shown.Requests || shown.Status != "up" {
					t.Errorf("%+v", shown)
				}
			}
			if total != uint64(requests*test.tries) {
				t.Errorf("%d attempts counted", total)
			}
		})
	}
}

// Nothing is in rotation: the answer is 503 with the time to the next check,
// also where handle_errors writes it, and names no backend.
func TestAllDownAnswers503(t *testing.T) {
	t.Parallel()
	b1, b2 := newBackend(t, answer(http.StatusInternalServerError), nil), newBackend(t, answer(http.StatusInternalServerError), nil)
	site, url := balancedSite(t, addrs(b1, b2), "name plain", "health_uri /", "health_interval 3s", "health_increment 4s", "health_jitter 0")
	handled, handledURL := balancedSite(t, addrs(b1, b2), "name handled", "health_uri /")
	handled = strings.TrimSuffix(handled, "}\n") + "\thandle_errors {\n\t\trespond \"sorry, {err.status_code}\"\n\t}\n}\n"
	c := startCaddy(t, site+handled)
	c.waitStatusIn(t, "plain", "down", b1.addr, b2.addr)
	c.waitStatusIn(t, "handled", "down", b1.addr, b2.addr)

	start := time.Now()
	status, body, header := getHeader(t, url)
	if took := time.Since(start); status != http.StatusServiceUnavailable || took > 100*time.Millisecond+lenient(margin) {
		t.Errorf("status %d after %s", status, took)
	}
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	next := *c.of(t, "plain", b1.addr).NextCheck
	if other := *c.of(t, "plain", b2.addr).NextCheck; other.Before(next) {
		next = other
	}
	least, most := time.Until(next), next.Sub(start)+time.Second
	if err != nil || seconds < 1 || time.Duration(seconds)*time.Second < least || time.Duration(seconds)*time.Second > most {
		t.Errorf("Retry-After: %s; the next check is in %s", header.Get("Retry-After"), least)
	}
	for _, b := range []*backend{b1, b2} {
		for _, text := range []string{body, fmt.Sprint(header)} {
			if strings.Contains(text, b.addr) {
				t.Errorf("names %s: %s", b.addr, text)
			}
		}
	}

	status, body, header = getHeader(t, handledURL)
	seconds, err = strconv.Atoi(header.Get("Retry-After"))
	if status != http.StatusServiceUnavailable || body != "sorry, 503" || err != nil || seconds < 1 || seconds > 11 {
		t.Errorf("status %d, header %v: %s", status, header, body)
	}
	if n := b1.requests.Load() + b2.requests.Load(); n != 0 {
		t.Errorf("%d requests came to upstreams that are down", n)
	}
}

// With try_all, requests go to all upstreams in turn while nothing is in
// rotation, and one line per episode says so.
func TestAllDownTriesAll(t *testing.T) {
	t.Parallel()
	var fit atomic.Bool
	b1, b2 := newBackend(t, switched(&fit), nil), newBackend(t, switched(&fit), nil)
	site, url := balancedSite(t, addrs(b1, b2), "when_all_down try_all", "health_uri /",
		"health_interval 50ms", "health_increment 0s", "health_max_failures never")
	c := startCaddy(t, site)
	for episode := 1; episode <= 2; episode++ {
		c.waitStatus(t, "down", b1.addr, b2.addr)
		before1, before2 := b1.requests.Load(), b2.requests.Load()
		for range 10 {
			if status, body := get(t, url); status != http.StatusOK {
				t.Errorf("status %d: %s", status, body)
			}
		}
		if n1, n2 := b1.requests.Load()-before1, b2.requests.Load()-before2; n1 != 5 || n2 != 5 {
			t.Errorf("%d and %d of 10", n1, n2)
		}
		if lines := c.logged("no upstream is in rotation: trying all of them"); len(lines) != episode {
			t.Errorf("%d lines in episode %d", len(lines), episode)
		}
		fit.Store(true)
		c.waitInRotation(t, b1.addr, b2.addr)
		fit.Store(false)
	}
}

// The only upstream comes back long before its next check: the next request
// asks for one and is served within 100 ms.
func TestRequestFindsReturnedUpstream(t *testing.T) {
	t.Parallel()
	var fit atomic.Bool
	b := newBackend(t, switched(&fit), nil)
	site, url := balancedSite(t, b.addr, "health_uri /", "health_interval 1m", "health_increment 1m", "health_max_interval 1h")
	c := startCaddy(t, site)
	c.waitStatus(t, "down", b.addr)
	if status, _ := get(t, url); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	scheduled := *c.upstream(t, b.addr).NextCheck
	if time.Until(scheduled) < time.Minute {
		t.Errorf("the next check is in %s", time.Until(scheduled))
	}
	for again := range 3 { // a busy machine may be slow once, but not thrice
		fit.Store(true)
		eventually(t, "a request may ask again", func() bool {
			return time.Since(*c.upstream(t, b.addr).LastCheck.Time) > time.Second+10*time.Millisecond
		})
		start := time.Now()
		status, _ := get(t, url)
		took := time.Since(start)
		if status == http.StatusOK && took <= lenient(100*time.Millisecond) {
			break
		}
		if again == 2 {
			t.Errorf("status %d after %s", status, took)
			break
		}
		c.waitStatus(t, "up", b.addr)
		fit.Store(false)
		c.act(t, "check?upstream="+b.addr)
		c.waitStatus(t, "down", b.addr)
	}
	if shown := c.upstream(t, b.addr); shown.Status != "up" || shown.Failures != 0 {
		t.Errorf("%+v", shown)
	}
}

// Many requests find nothing in rotation: they ask for at most ten checks a
// second of the pool, and one of each upstream.
func TestAskedChecksAreBounded(t *testing.T) {
	t.Parallel()
	var backends []*backend
	for range 15 {
		backends = append(backends, newBackend(t, answer(http.StatusInternalServerError), nil))
	}
	site, url := balancedSite(t, addrs(backends...), "health_uri /", "health_interval 1m")
	c := startCaddy(t, site)
	for _, b := range backends {
		c.waitStatus(t, "down", b.addr)
	}
	start := time.Now()
	l := startLoad(url, http.MethodGet, "", paced(200), patience)
	l.waitDone(t, paced(200)*3/2)
	l.finish()
	seconds := int64(time.Since(start)/time.Second) + 1
	total := int64(0)
	for _, b := range backends {
		asked := b.probes.Load() - 1
		total += asked
		if asked > seconds {
			t.Errorf("%d checks of one upstream in %d s", asked, seconds)
		}
	}
	if total < 10 || total > 10*seconds {
		t.Errorf("%d checks in %d s", total, seconds)
	}
	if len(l.failed) != int(l.done.Load()) || l.slow > 100*time.Millisecond+lenient(margin) {
		t.Errorf("%d of %d failed, the slowest after %s", len(l.failed), l.done.Load(), l.slow)
	}
}
