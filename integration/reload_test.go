package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// requireKept fails the test unless what is known about an upstream is as
// before.
func requireKept(t testing.TB, before, after admin.Upstream) {
	t.Helper()
	if after.Status != before.Status || after.Failures != before.Failures || after.DelayMS != before.DelayMS ||
		after.Reason != before.Reason || !after.Since.Equal(*before.Since) || !after.NextCheck.Equal(*before.NextCheck) {
		t.Errorf("after:  %+v\nbefore: %+v", after, before)
	}
}

// dialing is a transport that dials for every request, and again if the
// connection is reset before any answer: at a reload the queue of the old
// listening socket is.
type dialing struct {
	http.Transport
	again atomic.Int64
}

func (d *dialing) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var body []byte
	if req.Body != nil {
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	for range 10 {
		req.Body = io.NopCloser(bytes.NewReader(body))
		resp, err = d.Transport.RoundTrip(req)
		if !isReset(err) {
			break
		}
		d.again.Add(1)
	}
	return resp, err
}

// startDialing starts a load that dials for every request.
func startDialing(url, method, body string, perSec int) (*load, *dialing) {
	d := &dialing{Transport: http.Transport{DisableKeepAlives: true}}
	l := &load{
		url: url, method: method, body: body, perSec: perSec, timeout: patience,
		stop: make(chan struct{}), served: make(map[string]int), client: &http.Client{Transport: d},
	}
	l.sent.Add(1)
	go l.run()
	return l, d
}

// reloadCaddyfile loads a Caddyfile, though it be the same as before.
func (c *caddyProcess) reloadCaddyfile(t testing.TB, sites string) {
	t.Helper()
	if err := c.load("text/caddyfile", c.caddyfile(sites)); err != nil {
		t.Fatal(err)
	}
}

// Ten reloads under load: no request fails, none goes to an upstream that is
// down or retired, and what is known and counted stays.
func TestReloadsUnderLoad(t *testing.T) {
	const reloads = 10
	var fit atomic.Bool
	fit.Store(true)
	b1, b2 := newBackend(t, nil, nil), newBackend(t, nil, nil)
	sick := newBackend(t, switched(&fit), nil)
	options := []string{
		"health_uri /", "health_interval 50ms", "health_increment 30s", "health_fails 3",
	}
	site, url := balancedSite(t, addrs(b1, sick, b2), append(options, "name down")...)
	other, otherURL := balancedSite(t, addrs(b1, sick, b2), append(options, "name retired", "health_max_failures 3")...)
	stock, stockURL := balancedSite(t, addrs(b1, b2))
	sites := site + other + strings.Replace(stock, "load_balance", "reverse_proxy", 1)
	c := startCaddy(t, sites)
	eventually(t, "all are in rotation", func() bool {
		return !slices.ContainsFunc(c.upstreams(t), func(u admin.Upstream) bool { return !u.InRotation })
	})
	for range 3 {
		get(t, url)
		get(t, otherURL)
	}
	fit.Store(false)
	c.waitStatusIn(t, "down", "down", sick.addr)
	c.waitStatusIn(t, "retired", "retired", sick.addr)
	var before []admin.Upstream
	for _, pool := range []string{"down", "retired"} {
		shown := c.of(t, pool, sick.addr)
		if shown.Failures != 3 || shown.Requests != 1 {
			t.Errorf("%+v", shown)
		}
		before = append(before, shown)
	}
	probes, requests := sick.probes.Load(), sick.requests.Load()

	perSec := paced(150)
	gets, getsDialing := startDialing(url, http.MethodGet, "", perSec)
	posts, postsDialing := startDialing(otherURL, http.MethodPost, "body", perSec)
	plain, plainDialing := startDialing(stockURL, http.MethodGet, "", perSec)
	for range reloads {
		gets.waitDone(t, perSec/10)
		posts.waitDone(t, perSec/10)
		c.reloadCaddyfile(t, sites)
		for _, shown := range before {
			after := c.of(t, shown.Pool, shown.Address)
			requireKept(t, shown, after)
			if after.Requests != shown.Requests {
				t.Errorf("%d requests to the one that is %s", after.Requests-shown.Requests, shown.Status)
			}
		}
	}
	gets.waitDone(t, perSec/10)
	for _, l := range []*load{gets, posts, plain} {
		l.finish()
		l.requireNoneLost(t)
	}
	// a reset connection or two at a reload are Caddy's own; on a busy
	// machine there are more, with reverse_proxy, too
	again, theirs := getsDialing.again.Load()+postsDialing.again.Load(), plainDialing.again.Load()
	if again > 2*reloads+4*theirs {
		t.Errorf("%d connections to Caddy broke, %d with reverse_proxy", again, theirs)
	}
	if n := sick.probes.Load() - probes; n != 0 {
		t.Errorf("%d checks before they were due", n)
	}
	if n := sick.requests.Load() - requests; n != 0 {
		t.Errorf("%d requests came to it", n)
	}
	for pool, l := range map[string]*load{"down": gets, "retired": posts} {
		counted := c.of(t, pool, b1.addr).Requests + c.of(t, pool, b2.addr).Requests
		// a request that Caddy served may have been sent again
		if least := uint64(l.done.Load()) + 2; counted < least || counted > least+uint64(again) {
			t.Errorf("pool %s counts %d requests, %d were done", pool, counted, least)
		}
	}
	t.Logf("%d GETs, %d POSTs, %d dialed again; %d and %d with reverse_proxy", gets.done.Load(), posts.done.Load(), again, plain.done.Load(), theirs)
}

// Under load, reloads change the upstreams, the check and the transport, so
// that nothing is known about those in rotation: requests wait for the first
// results, and none fails or comes to an upstream that is no longer there.
func TestChangingReloadsUnderLoad(t *testing.T) {
	slowly := func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) }
	b1, b2, b3 := newBackend(t, slowly, nil), newBackend(t, slowly, nil), newBackend(t, slowly, nil)
	addr := freeAddr(t)
	site := func(upstreams string, options ...string) string { return siteAt(addr, upstreams, options...) }
	c := startCaddy(t, site(addrs(b1, b2)))
	c.waitInRotation(t, b1.addr, b2.addr)
	l, d := startDialing("http://"+addr, http.MethodGet, "", paced(200))
	for _, step := range []struct {
		change, site string
		in           []*backend
	}{
		{"one goes, one comes", site(addrs(b2, b3)), []*backend{b2, b3}},
		{"all go, one comes", site(addrs(b1)), []*backend{b1}},
		{"another check", site(addrs(b1, b2), "health_uri /a"), []*backend{b1, b2}},
		{"another transport", site(addrs(b1, b2), "health_uri /a", "transport http {", "dial_timeout 1s", "}"), []*backend{b1, b2}},
		{"another name and all else", site(addrs(b3), "name another", "health_uri /b"), []*backend{b3}},
		{"back to the first", site(addrs(b1, b2)), []*backend{b1, b2}},
	} {
		c.reloadCaddyfile(t, step.site)
		var addresses []string
		for _, b := range step.in {
			addresses = append(addresses, b.addr)
		}
		c.waitInRotation(t, addresses...)
		l.waitDone(t, 10) // old config's requests among them
		out := make(map[*backend]int64)
		for _, b := range []*backend{b1, b2, b3} {
			if !slices.Contains(step.in, b) {
				out[b] = b.requests.Load()
			}
		}
		l.waitDone(t, 20)
		for b, before := range out {
			if n := b.requests.Load() - before; n > 0 {
				t.Errorf("%s: %d requests to an upstream that is not there", step.change, n)
			}
		}
		if shown := c.upstreams(t); len(shown) != len(step.in) {
			t.Errorf("%s: %+v", step.change, shown)
		}
	}
	l.finish()
	l.requireNoneLost(t)
	t.Logf("%d requests, %d dialed again, slowest %s", l.done.Load(), d.again.Load(), l.slow)
}

// watchedBackend is a backend that also counts its open connections.
type watchedBackend struct {
	addr         string
	open, probes atomic.Int64
}

func newWatchedBackend(t testing.TB) *watchedBackend {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &watchedBackend{addr: ln.Addr().String()}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.UserAgent() == healthcheck.UserAgent {
				b.probes.Add(1)
			}
			_, _ = io.WriteString(w, b.addr)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				b.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				b.open.Add(-1)
			}
		},
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Close() })
	return b
}

// probesIn returns how many checks come in a time.
func (b *watchedBackend) probesIn(d time.Duration) int64 {
	before := b.probes.Load()
	time.Sleep(d)
	return b.probes.Load() - before
}

// Twenty reloads leave nothing behind: checks come as often as before, and
// goroutines and connections to the backends are as many as before.
func TestReloadsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]string{
		"default transport":    "",
		"configured transport": "transport http {\ndial_timeout 2s\n}",
	} {
		t.Run(name, func(t *testing.T) {
			const interval, window = 50 * time.Millisecond, 600 * time.Millisecond
			b1, b2 := newWatchedBackend(t), newWatchedBackend(t)
			site, url := balancedSite(t, b1.addr+" "+b2.addr, "health_interval 50ms", transport)
			c := startCaddy(t, site)
			c.waitInRotation(t, b1.addr, b2.addr)
			use := func() {
				var wait sync.WaitGroup
				for range 10 {
					wait.Go(func() {
						if status, err := quietGet(url); status != http.StatusOK {
							t.Errorf("status %d, %v", status, err)
						}
					})
				}
				wait.Wait()
			}
			use()
			rate := b1.probesIn(window)
			goroutines := c.goroutines(t)
			conns := b1.open.Load() + b2.open.Load()
			for range 20 {
				c.reloadCaddyfile(t, site)
				use()
			}
			// one config's: five requests and a check at a time for each
			const most = 2 * (5 + 1)
			var conns2 int64
			var goroutines2 int
			eventually(t, "connections and goroutines of old configs are gone", func() bool {
				conns2, goroutines2 = b1.open.Load()+b2.open.Load(), c.goroutines(t)
				return conns2 <= most && goroutines2 <= goroutines+2*most
			})
			rate2 := b1.probesIn(window)
			if due := int64(window / interval); rate2 > due*13/10 || rate > due*13/10 {
				t.Errorf("%d checks in %s, %d before, %d due", rate2, window, rate, due)
			}
			for _, b := range []*watchedBackend{b1, b2} {
				checks := b.probes.Load()
				eventually(t, "checks go on", func() bool { return b.probes.Load() >= checks+3 })
			}
			t.Logf("before: %d connections, %d goroutines, %d checks; after: %d, %d, %d", conns, goroutines, rate, conns2, goroutines2, rate2)
		})
	}
}

// Requests are held, one in the retry window and one waiting for a first
// result, while the config is reloaded: both end inside their own windows.
func TestCase_c4442(t *testing.T) {
	t.Parallel()
	const window = 1500 * time.Millisecond
	gate := make(chan struct{})
	slow := newBackend(t, hanging(gate), nil)
	dead := refusing(t)
	held, heldURL := balancedSite(t, dead, "name held", "lb_try_duration 1500ms")
	starting, startingURL := balancedSite(t, slow.addr, "name starting", "start_wait 1500ms")
	c := startCaddy(t, held+starting)
	t.Cleanup(sync.OnceFunc(func() { close(gate) }))
	c.waitStatus(t, "down", dead)

	var wait sync.WaitGroup
	start := time.Now()
	for _, url := range []string{heldURL, startingURL} {
		for range 5 {
			wait.Go(func() {
				status, err := quietGet(url)
				if took := time.Since(start); status != http.StatusServiceUnavailable || took > window+250*time.Millisecond+lenient(margin) {
					t.Errorf("status %d after %s, %v", status, took, err)
				}
			})
		}
	}
	eventually(t, "requests have asked for a check", func() bool {
		shown := c.of(t, "held", dead)
		return shown.LastCheck.Time.After(start)
	})
	c.reloadCaddyfile(t, held+starting)
	wait.Wait()
	if n := c.goroutines(t); n > 60 {
		t.Errorf("%d goroutines", n)
	}
}

// A pool is renamed, then reordered and put at the other end of the config:
// what is known about its upstreams goes with them.
func TestRenamedPoolKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	b1, b2 := newBackend(t, nil, nil), newBackend(t, answer(http.StatusInternalServerError), nil)
	options := []string{"health_uri /", "health_interval 30s"}
	pool := func(name, upstreams string) string {
		site, _ := balancedSite(t, upstreams, append(options, "name "+name)...)
		return site
	}
	another := pool("another", b1.addr+" "+newBackend(t, nil, nil).addr)
	another = strings.Replace(another, "health_uri /", "health_uri /another", 1) // nothing in common with the first
	c := startCaddy(t, pool("old", addrs(b1, b2))+another)
	c.waitStatusIn(t, "old", "up", b1.addr)
	c.waitStatusIn(t, "old", "down", b2.addr)
	up, down := c.of(t, "old", b1.addr), c.of(t, "old", b2.addr)
	probes := b2.probes.Load()

	for _, step := range []struct{ pool, sites string }{
		{"new", pool("new", addrs(b1, b2)) + another},
		{"new", another + pool("new", addrs(b2, b1))},
		{"newer", another + pool("newer", addrs(b2, b1))},
	} {
		c.reloadCaddyfile(t, step.sites)
		requireKept(t, down, c.of(t, step.pool, b2.addr))
		if shown := c.of(t, step.pool, b1.addr); shown.Status != "up" || !shown.Since.Equal(*up.Since) {
			t.Errorf("%+v\nbefore: %+v", shown, up)
		}
	}
	if n := b2.probes.Load() - probes; n > 0 {
		t.Errorf("%d checks before they were due", n)
	}
}

// Two pools of one config have the same first address and no names: they are
// known as x and x#2 in order of server name, over every reload, and their
// counts are kept apart.
func TestEqualNamesAreStable(t *testing.T) {
	t.Parallel()
	shared, a, z := newBackend(t, nil, nil), newBackend(t, nil, nil), newBackend(t, nil, nil)
	c := newCaddy(t)
	// the servers are named after their addresses
	addresses := []string{freeAddr(t), freeAddr(t)}
	slices.Sort(addresses)
	handler := func(second *backend) string {
		return fmt.Sprintf(`{"handler": "load_balance", "upstreams": [{"dial": %q}, {"dial": %q}]}`, shared.addr, second.addr)
	}
	config := c.jsonConfig(map[string]string{addresses[0]: handler(a), addresses[1]: handler(z)})
	c.startJSON(t, config)
	first, second := shared.addr, shared.addr+"#2"
	c.waitStatusIn(t, first, "up", shared.addr, a.addr)
	c.waitStatusIn(t, second, "up", shared.addr, z.addr)
	for i := range 5 {
		getAgain(t, "http://"+addresses[0])
		if i < 3 {
			getAgain(t, "http://"+addresses[1])
		}
	}
	// more requests come to the second one while the config changes
	more, _ := startDialing("http://"+addresses[1], http.MethodGet, "", paced(100))
	defer more.finish()
	for i := range 10 {
		if err := c.loadJSON(config); err != nil {
			t.Fatal(err)
		}
		counts := map[string]uint64{}
		for _, shown := range c.upstreams(t) {
			counts[shown.Pool] += shown.Requests
			if shown.Pool == first && shown.Address == z.addr || shown.Pool == second && shown.Address == a.addr || shown.Status != "up" {
				t.Errorf("reload %d: %+v", i+1, shown)
			}
		}
		if len(counts) != 2 || counts[first] != 5 || counts[second] < 3 {
			t.Fatalf("reload %d: %v", i+1, counts)
		}
	}
}

// Load, status flips, ejections, drains, maintenance, reloads to and fro, and
// looks at the admin API and the metrics, all at once: no request fails,
// nothing panics or races.
func TestCase_c4038(t *testing.T) {
	var fit atomic.Bool
	fit.Store(true)
	steady := newBackend(t, nil, nil)
	f1, f2 := newBackend(t, switched(&fit), nil), newBackend(t, switched(&fit), nil)
	options := []string{
		"health_uri /", "health_interval 20ms", "health_increment 5ms", "health_max_failures 3", "health_readmit_after 50ms",
		"fail_duration 1s", "max_fails 5", "unhealthy_latency 2ms", "slow_start 50ms",
	}
	site, url := balancedSite(t, addrs(f1, steady, f2), append(options, "name same")...)
	reordered := strings.Replace(site, addrs(f1, steady, f2), addrs(f2, f1, steady), 1)
	renamed := strings.Replace(site, "name same", "name another", 1)
	c := startCaddy(t, site)
	c.waitInRotation(t, steady.addr, f1.addr, f2.addr)

	l, d := startDialing(url, http.MethodGet, "", paced(200))
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
				fit.Store(!fit.Load())
			}
		}
	})
	lease := map[string]string{"drain": "&for=20ms"}
	others.Go(func() {
		paths := []string{"check", "readmit", "drain", "ready", "maint", "ready", "drain"}
		for i := 0; ; i++ {
			path := paths[i%len(paths)]
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for _, call := range []struct{ method, path string }{
				{http.MethodGet, "/load_balance/upstreams?explain=1"},
				{http.MethodGet, "/metrics"},
				{http.MethodPost, "/load_balance/" + path + "?upstream=" + f1.addr + lease[path]},
			} {
				req, _ := http.NewRequest(call.method, "http://"+c.admin+call.path, nil)
				if resp, err := http.DefaultClient.Do(req); err == nil { // it restarts at every reload
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		}
	})
	for range 10 {
		for _, sites := range []string{reordered, renamed, site} {
			c.reloadCaddyfile(t, sites)
		}
	}
	l.waitDone(t, 20)
	close(stop)
	others.Wait()
	l.finish()
	l.requireNoneLost(t)
	fit.Store(true)
	c.api(t, http.MethodPost, "/load_balance/ready?upstream="+f1.addr)
	c.waitInRotation(t, steady.addr, f1.addr, f2.addr)
	t.Logf("%d requests, %d dialed again, %d retirements, %d ejections", l.done.Load(), d.again.Load(), len(c.logged("upstream is retired: no more checks, no more requests")),
		len(c.logged("upstream is ejected: its requests failed")))
}

// A request is under way over reloads: it stays counted, also toward
// max_requests, until it ends, and then no longer.
func TestInFlightOverReloads(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	b := newBackend(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-gate
		}
	})
	site, url := balancedSite(t, b.addr, "max_fails 1", "unhealthy_request_count 1")
	c := startCaddy(t, site)
	t.Cleanup(release)
	c.waitInRotation(t, b.addr)
	var held sync.WaitGroup
	held.Go(func() {
		if status, err := quietGet(url + "/held"); status != http.StatusOK {
			t.Errorf("status %d, %v", status, err)
		}
	})
	eventually(t, "the request is under way", func() bool { return b.requests.Load() == 1 })
	for range 3 {
		if shown := c.upstream(t, b.addr); shown.InFlight != 1 || shown.Requests != 1 {
			t.Errorf("%+v", shown)
		}
		if status, _ := getAgain(t, url); status != http.StatusServiceUnavailable {
			t.Errorf("full: status %d", status)
		}
		c.reloadCaddyfile(t, site)
	}
	release()
	held.Wait()
	eventually(t, "nothing is under way", func() bool { return c.upstream(t, b.addr).InFlight == 0 })
	if status, _ := getAgain(t, url); status != http.StatusOK {
		t.Errorf("free again: status %d", status)
	}
	if shown := c.upstream(t, b.addr); shown.Requests != 2 || shown.Errors != 0 {
		t.Errorf("%+v", shown)
	}
}
