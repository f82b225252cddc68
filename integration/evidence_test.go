package integration

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A frozen backend takes its requests and answers none. With health_uri and
// health_timeout and nothing else, those that wait are sent elsewhere, and no
// GET fails.
func TestFrozenBackendIsRescued(t *testing.T) {
	const timeout = time.Second
	backends, addresses := startBackends(t, 3, 20*time.Millisecond)
	site, url := balancedSite(t, strings.Join(addresses, " "), "health_uri /health", "health_timeout 1s")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)
	base := c.goroutines(t)

	perSec := paced(500)
	l := startLoad(url, http.MethodGet, "", perSec, patience)
	l.waitDone(t, perSec/4+rand.IntN(perSec))
	hung := time.Now()
	backends[0].hang()
	detected := c.waitLogged(t, "upstream is down", addresses[0], hung).Sub(hung)
	errors := c.upstream(t, addresses[0]).Errors
	l.waitDone(t, 2*perSec)
	l.finish()

	l.requireNoneLost(t)
	if bound := timeout + 4*time.Second; l.slow > lenient(bound) {
		t.Errorf("a request took %s, the bound is %s", l.slow, bound)
	}
	if detected > timeout+2*time.Second+lenient(margin) {
		t.Errorf("down after %s", detected)
	}
	eventually(t, "those that waited are booked as errors", func() bool { return c.upstream(t, addresses[0]).Errors > 0 })
	after := 0
	eventually(t, "goroutines are as before", func() bool {
		after = c.goroutines(t)
		return after <= base+250 // idle connections to three upstreams and to clients
	})
	t.Logf("down after %s, slowest of %d %s, %d errors booked at once, goroutines %d before, %d after", detected, l.done.Load(), l.slow, errors, base, after)
	backends[0].resume()
}

// answerOf sends a request, and will say whether it was answered with 200.
func answerOf(send func() (*http.Response, error)) <-chan error {
	answered := make(chan error, 1)
	go func() {
		resp, err := send()
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		answered <- err
	}()
	return answered
}

// A request that a reload leaves behind is rescued, too, when the newer config
// finds that what it waits for does not answer.
func TestFrozenBackendIsRescuedAfterReload(t *testing.T) {
	for name, changed := range map[string]string{"equal config": "", "another check": "health_uri /other"} {
		t.Run(name, func(t *testing.T) {
			backends, addresses := startBackends(t, 2, 0)
			options := []string{"health_timeout 1s", "lb_policy first"}
			site, url := balancedSite(t, strings.Join(addresses, " "), options...)
			c := startCaddy(t, site)
			c.waitInRotation(t, addresses...)
			backends[0].hang()
			defer backends[0].resume()
			answered := answerOf(func() (*http.Response, error) { return http.Get(url) })
			eventually(t, "the request waits", func() bool { return c.upstream(t, addresses[0]).InFlight == 1 })
			c.reloadCaddyfile(t, strings.Replace(site, "lb_policy first", "lb_policy first\nhealth_interval 1s\n"+changed, 1))
			select {
			case err := <-answered:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("not answered")
			}
		})
	}
}

// So is one while reloads follow each other so fast that no check has the time
// to end.
func TestFrozenBackendIsRescuedWhileReloading(t *testing.T) {
	backends, addresses := startBackends(t, 2, 0)
	site, url := balancedSite(t, strings.Join(addresses, " "), "health_timeout 2s", "lb_policy first")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)
	backends[0].hang()
	defer backends[0].resume()
	answered := answerOf(func() (*http.Response, error) { return http.Get(url) })
	eventually(t, "the request waits", func() bool { return c.upstream(t, addresses[0]).InFlight == 1 })
	for began := time.Now(); ; {
		for _, interval := range []string{"1h", "2h"} {
			c.reloadCaddyfile(t, strings.Replace(site, "lb_policy first", "lb_policy first\nhealth_interval "+interval, 1))
		}
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if time.Since(began) > patience {
			t.Fatal("not answered")
		}
	}
}

// Requests that Caddy would not retry wait for a frozen backend as before, and
// are answered once it goes on.
func TestFrozenBackendKeepsItsPOSTs(t *testing.T) {
	backends, addresses := startBackends(t, 2, 0)
	site, url := balancedSite(t, strings.Join(addresses, " "), "health_timeout 200ms", "lb_policy first")
	c := startCaddy(t, site)
	c.waitInRotation(t, addresses...)
	backends[0].hang()
	hung := time.Now()
	answered := answerOf(func() (*http.Response, error) { return http.Post(url, "text/plain", strings.NewReader("x")) })
	c.waitLogged(t, "upstream is down", addresses[0], hung)
	select {
	case err := <-answered:
		t.Errorf("answered before the backend went on: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	backends[0].resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// shortBody announces more than it sends.
func shortBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A response body that breaks off is a failure.
func TestCase_n340(t *testing.T) {
	t.Parallel()
	a, b := newBackend(t, nil, shortBody), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b), "lb_policy first", "fail_duration 10s", "max_fails 1")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	if resp, err := http.Get(url); err == nil {
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the body did not break off for the client")
		}
		resp.Body.Close()
	}
	eventually(t, "a is ejected", func() bool {
		shown := c.upstream(t, a.addr)
		return shown.EjectedUntil != nil && !shown.InRotation && shown.Status == "up"
	})
	if status, body := get(t, url); status != http.StatusOK || body != b.addr {
		t.Errorf("status %d: %s", status, body)
	}
	eventually(t, "it is logged", func() bool { return len(c.logged("upstream is ejected: its requests failed")) > 0 })
	if lines := c.logged("upstream is ejected: its requests failed"); len(lines) != 1 || lines[0]["reason"] != "response broken off" {
		t.Errorf("log lines %v", lines)
	}
}

// Clients that hang up while they wait, upload or download are no failures.
func TestCase_c1925_ejectsNothing(t *testing.T) {
	t.Parallel()
	const clients = 100
	endless := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/download" {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	a, b := newBackend(t, nil, endless), newBackend(t, nil, endless)
	site, url := balancedSite(t, addrs(a, b), "fail_duration 1m", "max_fails 1")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	var conns []net.Conn
	for i := range clients {
		text := []string{
			"GET / HTTP/1.1\r\nHost: test\r\n\r\n",
			"GET /download HTTP/1.1\r\nHost: test\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf",
		}[i%3]
		conns = append(conns, rawRequest(t, url, text))
	}
	eventually(t, "all are under way", func() bool { return a.requests.Load()+b.requests.Load() == clients })
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "all are gone", func() bool { return c.upstream(t, a.addr).InFlight+c.upstream(t, b.addr).InFlight == 0 })
	for _, addr := range []string{a.addr, b.addr} {
		if shown := c.upstream(t, addr); shown.Errors != 0 || shown.EjectedUntil != nil || !shown.InRotation {
			t.Errorf("%+v", shown)
		}
	}
}

// A request fails on A, then on B, then is served by C: with max_fails 2,
// neither is ejected after one such request, and both after two.
func TestCase_h2679_ejects(t *testing.T) {
	t.Parallel()
	a, b, third := newBackend(t, nil, hangUp), newBackend(t, nil, hangUp), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b, third), "lb_policy first", "fail_duration 1m", "max_fails 2")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr, third.addr)
	for n, in := range []bool{true, false} {
		if status, body := get(t, url); status != http.StatusOK || body != third.addr {
			t.Errorf("status %d: %s", status, body)
		}
		for _, addr := range []string{a.addr, b.addr} {
			if shown := c.upstream(t, addr); shown.InRotation != in {
				t.Errorf("after %d requests: %+v", n+1, shown)
			}
		}
	}
	if shown := c.upstream(t, third.addr); !shown.InRotation || shown.Errors != 0 {
		t.Errorf("%+v", shown)
	}
}

// hangingUp returns a handler that hangs up while on is true, and says "a"
// else.
func hangingUp(on *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if on.Load() {
			hangUp(w, r)
			return
		}
		_, _ = io.WriteString(w, "a")
	}
}

// Failures with more than fail_duration between them never add up.
func TestCase_n599(t *testing.T) {
	t.Parallel()
	const window = 300 * time.Millisecond
	var broken atomic.Bool
	a, b := newBackend(t, nil, hangingUp(&broken)), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b), "lb_policy first", "fail_duration 300ms", "max_fails 2")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	for range 5 {
		broken.Store(true)
		get(t, url)          // fails on a, is served by b
		failed := time.Now() // a moment after the failure: what waits from here on is outside its window
		broken.Store(false)
		eventually(t, "the failure is history", func() bool {
			if status, body := get(t, url); status != http.StatusOK || body != "a" {
				t.Errorf("served by %s: status %d", body, status)
			}
			return time.Since(failed) > window+50*time.Millisecond
		})
	}
	if shown := c.upstream(t, a.addr); !shown.InRotation || shown.Errors != 5 {
		t.Errorf("%+v", shown)
	}
}

// Fifty thousand failed requests leave neither goroutines nor memory behind.
func TestCase_c1069_c5398(t *testing.T) {
	const requests = 50_000
	a, b := newBackend(t, nil, answer(500)), newBackend(t, nil, answer(500))
	site, url := balancedSite(t, addrs(a, b), "fail_duration 10m", fmt.Sprint("max_fails ", 10*requests), "unhealthy_status 5xx")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	send := func(n, atOnce int) {
		var left atomic.Int64
		left.Store(int64(n))
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					resp, err := client.Get(url)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
	}
	n := requests
	if raceEnabled {
		n /= 10
	}
	send(n/2, 64) // connections and caches, more than are needed later
	goroutines, memory := c.goroutines(t), c.memory(t)
	send(n, 32)
	more, grown := c.goroutines(t)-goroutines, c.memory(t)-memory
	if more > 20 || grown > 20<<20 && !raceEnabled {
		t.Errorf("%d goroutines and %d bytes more", more, grown)
	}
	t.Logf("after %d failed requests: %d goroutines and %d KB more", n, more, grown>>10)
}

// memory returns the resident memory of Caddy.
func (c *caddyProcess) memory(t testing.TB) int64 {
	t.Helper()
	var rss, size int64
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscan(string(text), &size, &rss); err != nil {
		t.Fatal(err)
	}
	return rss * int64(syscall.Getpagesize())
}

// With checks off, an ejected upstream gets exactly one request after its
// hold, and is back if that goes well.
func TestEjectedWithoutChecks(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	a, b := newBackend(t, nil, hangingUp(&broken)), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b), "health_protocol none", "health_interval 200ms", "health_increment 0",
		"fail_duration 1m", "max_fails 1")
	c := startCaddy(t, site)
	for range 2 { // one of them ejects it
		get(t, url)
	}
	l := startLoad(url, http.MethodGet, "", 100, patience)
	eventually(t, "two trials have failed", func() bool { return a.requests.Load() >= 3 })
	if n := a.requests.Load(); n > 4 {
		t.Errorf("%d requests reached it", n)
	}
	broken.Store(false)
	c.waitInRotation(t, a.addr, b.addr)
	l.finish()
	l.requireNoneLost(t)
	eventually(t, "the return is logged", func() bool { return len(c.logged("upstream is back in rotation")) == 1 })
}

// Checks that time out do not take out an upstream that answers requests.
func TestBenefitOfTheDoubt(t *testing.T) {
	t.Parallel()
	stuck := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	var ill atomic.Bool
	health := func(w http.ResponseWriter, r *http.Request) {
		if ill.Load() {
			stuck(w, r)
		}
	}
	a, b := newBackend(t, health, nil), newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b), "health_interval 200ms", "health_timeout 2s")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	l := startLoad(url, http.MethodGet, "", paced(200), patience)
	l.waitDone(t, 20)
	ill.Store(true)
	probes := a.probes.Load()
	eventually(t, "checks have timed out", func() bool { return a.probes.Load() > probes+3 })
	if shown := c.upstream(t, a.addr); shown.Status != "up" || shown.Failures != 0 {
		t.Errorf("%+v", shown)
	}
	if n := len(c.logged("check timed out, but requests are answered: not counted")); n != 1 {
		t.Errorf("%d warnings", n)
	}
	l.finish()
	l.requireNoneLost(t)
	c.waitStatus(t, "down", a.addr) // when nobody asks, the check is all there is
}
