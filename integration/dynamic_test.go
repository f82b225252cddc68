package integration

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Tests of dynamic upstreams, which a DNS server on loopback names.

// A fleet is backends on addresses of their own, with one port, and the DNS
// server that knows them.
type fleet struct {
	*dnsServer
	port      string
	addresses []string
	backends  []*backend
	// sick ones fail their checks, broken ones their requests.
	sick, broken []atomic.Bool
	// unproven counts requests to backends that had not been checked.
	unproven atomic.Int64
}

func newFleet(t testing.TB, n int) *fleet {
	t.Helper()
	f := &fleet{dnsServer: newDNSServer(t), sick: make([]atomic.Bool, n), broken: make([]atomic.Bool, n)}
	var ips []string
	for i := range n {
		ips = append(ips, fmt.Sprint("127.0.3.", i+1))
	}
	listeners, port := listenAll(t, ips...)
	f.port = port
	for i, ln := range listeners {
		address := ln.Addr().String()
		f.addresses = append(f.addresses, address)
		var b *backend
		b = newBackendOn(t, ln, func(w http.ResponseWriter, _ *http.Request) {
			if f.sick[i].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, func(w http.ResponseWriter, _ *http.Request) {
			if b.probes.Load() == 0 {
				f.unproven.Add(1)
			}
			if f.broken[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = io.WriteString(w, address)
		})
		f.backends = append(f.backends, b)
		f.set(f.host(i), "A", ips[i])
	}
	return f
}

// host returns the name of a backend.
func (f *fleet) host(i int) string { return fmt.Sprintf("node%d.internal.", i) }

// publish has a name stand for those backends, by A and by SRV records.
func (f *fleet) publish(name string, nodes ...int) {
	var ips, services []string
	for _, i := range nodes {
		ip, _, _ := net.SplitHostPort(f.addresses[i])
		ips = append(ips, ip)
		services = append(services, fmt.Sprintf("%d 10 %s %s", i, f.port, f.host(i))) // else the order is random
	}
	f.set(name+".", "A", ips...)
	f.set(name+".", "SRV", services...)
}

// a returns the option that finds upstreams by A records of a name.
func (f *fleet) a(name string) string { return f.source("a " + name + " " + f.port) }

// srv is a, by SRV records.
func (f *fleet) srv(name string) string { return f.source("srv " + name) }

func (f *fleet) source(args string) string {
	return fmt.Sprintf("dynamic %s {\nrefresh 20ms\nresolvers %s\n}", args, f.addr)
}

// known has the pool's transport resolve names.
func (f *fleet) known() string { return "transport http {\nresolvers " + f.addr + "\n}" }

// probes returns how often the backends were checked.
func (f *fleet) probes() (n int64) {
	for _, b := range f.backends {
		n += b.probes.Load()
	}
	return n
}

// requests returns how many requests each of the backends got.
func (f *fleet) requests() []int64 {
	var list []int64
	for _, b := range f.backends {
		list = append(list, b.requests.Load())
	}
	return list
}

// statuses returns the statuses of the upstreams of a pool.
func (c *caddyProcess) statuses(t testing.TB, pool string) map[string]string {
	t.Helper()
	statuses := make(map[string]string)
	for _, u := range c.upstreams(t) {
		if u.Pool == pool {
			statuses[u.Address] = u.Status
		}
	}
	return statuses
}

// waitStatuses waits until a pool has exactly those upstreams, with those
// statuses.
func (c *caddyProcess) waitStatuses(t testing.TB, pool string, want map[string]string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %v", pool, want), func() bool { return maps.Equal(c.statuses(t, pool), want) })
}

// bothSites returns two sites, of load_balance and of reverse_proxy, and their
// URLs. The options may depend on which of them it is.
func bothSites(t testing.TB, options func(directive string) []string) (sites string, urls map[string]string) {
	t.Helper()
	urls = make(map[string]string)
	for _, directive := range []string{"load_balance", "reverse_proxy"} {
		addr := freeAddr(t)
		urls[directive] = "http://" + addr
		sites += fmt.Sprintf("http://%s {\n%s {\n%s\n}\n}\n", addr, directive, strings.Join(options(directive), "\n"))
	}
	return sites, urls
}

// Whatever names them, upstreams are known and checked without any request,
// get none while they are sick or before they are checked, and none once they
// are not named any more.
func TestDynamicUpstreams(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*fleet) string{
		"a":   func(f *fleet) string { return f.a("web.internal") },
		"srv": func(f *fleet) string { return f.srv("web.internal") + "\n" + f.known() },
		"multi": func(f *fleet) string {
			nested := func(source string) string { return strings.TrimPrefix(source, "dynamic ") }
			return "dynamic multi {\n" + nested(f.a("web.internal")) + "\n" + nested(f.a("more.internal")) + "\n}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 4)
			addresses := f.addresses
			if name == "srv" {
				addresses = nil
				for i := range f.backends {
					addresses = append(addresses, f.host(i)+":"+f.port)
				}
			}
			f.publish("web.internal", 0, 1)
			f.publish("more.internal", 2)
			if name != "multi" {
				f.publish("web.internal", 0, 1, 2)
			}
			f.sick[1].Store(true)
			site, url := balancedSite(t, "", "name web", source(f), "health_uri /health", "health_interval 100ms", "health_increment 0")
			c := startCaddy(t, site)
			c.waitStatuses(t, "web", map[string]string{addresses[0]: "up", addresses[1]: "down", addresses[2]: "up"})
			if got := f.requests(); !slices.Equal(got, make([]int64, 4)) {
				t.Errorf("requests %v", got)
			}
			requireShares(t, url, 30, f.addresses[0], f.addresses[2])

			f.publish("web.internal", 0, 1, 2, 3)
			f.publish("more.internal")
			eventually(t, "the new one serves", func() bool { get(t, url); return f.backends[3].requests.Load() > 0 })
			f.publish("web.internal", 3, 1)
			time.Sleep(50 * time.Millisecond) // longer than answers are kept
			before := f.requests()
			requireShares(t, url, 30, f.addresses[3])
			if now := f.requests(); !slices.Equal(now[:3], before[:3]) {
				t.Errorf("requests %v, then %v", before, now)
			}
			if f.backends[1].requests.Load() > 0 || f.unproven.Load() > 0 {
				t.Errorf("requests %v, %d of them unchecked", f.requests(), f.unproven.Load())
			}
			if _, row := c.statuses(t, "web")[addresses[0]]; !row {
				t.Error("its row is gone at once")
			}
		})
	}
}

// Where the source fails or has nothing, what serves is what serves with
// reverse_proxy.
func TestDynamicSourceFails(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	const fallback = 2 // the static one
	// Answers are kept by name, for all handlers.
	name := func(directive, kind string) string { return kind + "." + strings.ReplaceAll(directive, "_", "-") }
	kinds := []string{"plain", "bare", "several"}
	publish := func(nodes ...int) {
		for _, kind := range kinds {
			f.publish(name("load_balance", kind), nodes...)
			f.publish(name("reverse_proxy", kind), nodes...)
		}
	}
	publish(0, 1)
	urls := make(map[string]map[string]string)
	var sites strings.Builder
	for _, kind := range kinds {
		text, addresses := bothSites(t, func(directive string) []string {
			source := f.a(name(directive, kind))
			switch kind {
			case "bare":
				return []string{source}
			case "several":
				source = "dynamic multi {\n" + strings.TrimPrefix(source, "dynamic ") + "\n}"
			}
			return []string{source, "to " + f.addresses[fallback]}
		})
		sites.WriteString(text)
		urls[kind] = addresses
	}
	startCaddy(t, sites.String())

	serves := func(kind string, want ...string) {
		t.Helper()
		for directive, url := range urls[kind] {
			eventually(t, fmt.Sprintf("%s, %s: %v", directive, kind, want), func() bool {
				got := make(map[string]bool)
				for range 8 {
					status, body := get(t, url)
					got[strings.TrimSpace(fmt.Sprint(status, " ", body))] = true
				}
				return slices.Equal(slices.Sorted(maps.Keys(got)), want)
			})
		}
	}
	dynamic := []string{"200 " + f.addresses[0], "200 " + f.addresses[1]}
	static := "200 " + f.addresses[fallback]
	for _, tc := range []struct {
		name                 string
		set                  func()
		plain, bare, several []string
	}{
		{"named", func() {}, dynamic, dynamic, dynamic},
		{"failing", func() { f.fail(true) }, []string{static}, []string{"503"}, []string{"503"}},
		{"named again", func() { f.fail(false) }, dynamic, dynamic, dynamic},
		{"empty", func() { publish() }, []string{static}, []string{"503"}, []string{"503"}},
		{"one", func() { publish(1) }, dynamic[1:], dynamic[1:], dynamic[1:]},
	} {
		t.Log(tc.name)
		tc.set()
		serves("plain", tc.plain...)
		serves("bare", tc.bare...)
		serves("several", tc.several...)
	}
}

// A request that cannot connect to one goes to another, and the dead one is
// out of rotation at once.
func TestDynamicRetries(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.publish("web.internal", 0, 1, 2)
	site, url := balancedSite(t, "", "name web", f.srv("web.internal"), f.known(), "health_interval 1h")
	c := startCaddy(t, site)
	host := func(i int) string { return f.host(i) + ":" + f.port }
	c.waitStatuses(t, "web", map[string]string{host(0): "up", host(1): "up", host(2): "up"})
	f.backends[0].Close()
	for range 3 { // one of them is its turn
		if status, body := get(t, url); status != http.StatusOK || body == f.addresses[0] {
			t.Errorf("status %d: %s", status, body)
		}
	}
	c.waitStatus(t, "down", host(0))
	requireShares(t, url, 30, f.addresses[1], f.addresses[2])
	if shown := c.upstream(t, host(0)); shown.Requests == 0 || shown.Errors != shown.Requests || shown.Reason != "connection refused" {
		t.Errorf("%+v", shown)
	}
}

// A reload keeps rows and statuses of what the source has named, though it
// fails just then, without checking anew.
func TestDynamicReloads(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.publish("web.internal", 0, 1, 2)
	f.sick[2].Store(true)
	site, url := balancedSite(t, "", "name web", f.a("web.internal"), "health_uri /health", "health_interval 1h", "health_jitter 0")
	c := startCaddy(t, site)
	want := map[string]string{f.addresses[0]: "up", f.addresses[1]: "up", f.addresses[2]: "down"}
	c.waitStatuses(t, "web", want)
	requireShares(t, url, 30, f.addresses[:2]...)
	f.publish("web.internal", 1, 2)
	time.Sleep(50 * time.Millisecond) // longer than answers are kept
	before := make(map[string]admin.Upstream)
	for _, u := range c.upstreams(t) {
		before[u.Address] = u
	}
	for range 3 {
		f.fail(true)
		c.reloadCaddyfile(t, site)
		if got := c.statuses(t, "web"); !maps.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		f.fail(false)
		for range 5 {
			if status, body := getAgain(t, url); status != http.StatusOK || body != f.addresses[1] {
				t.Errorf("status %d: %s", status, body)
			}
		}
	}
	for address, u := range before {
		after := c.upstream(t, address)
		requireKept(t, u, after)
		if after.Requests < u.Requests {
			t.Errorf("%s: %d requests, then %d", address, u.Requests, after.Requests)
		}
	}
	if n := f.probes(); n != 3 {
		t.Errorf("%d checks of three upstreams", n)
	}
	if n := f.backends[2].requests.Load(); n != 0 {
		t.Errorf("%d requests to the sick one", n)
	}
}

// A source that depends on the request is asked for requests only, and no
// tenant gets to another's backends, whatever fails.
func TestDynamicTenants(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	tenants := map[string][]int{"one": {0, 1}, "two": {2, 3}, "three": {4, 5}}
	for tenant, nodes := range tenants {
		f.publish(tenant+".internal", nodes...)
	}
	site, url := balancedSite(t, "", "name tenants", f.a("{header.X-Tenant}.internal"),
		"when_all_down try_all", "lb_retries 4", "lb_retry_match method GET POST", "lb_try_interval 1ms",
		"health_interval 200ms", "health_increment 0", "fail_duration 10s", "max_fails 2", "unhealthy_status 5xx")
	c := startCaddy(t, site)
	if n := f.queries(); n != 0 || len(c.upstreams(t)) != 0 {
		t.Errorf("%d queries and %d rows before any request", n, len(c.upstreams(t)))
	}

	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	send := func(tenant string) (status int, body string, err error) {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("X-Tenant", tenant)
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	// parallel sends requests of all tenants, and of one that has nothing,
	// and returns how many were served.
	parallel := func(n int) (served int64) {
		var ok atomic.Int64
		var wg sync.WaitGroup
		for tenant, nodes := range tenants {
			for range 4 {
				wg.Go(func() {
					for range n {
						status, body, err := send(tenant)
						if at := slices.Index(f.addresses, body); err != nil || body != "" && !slices.Contains(nodes, at) {
							t.Errorf("%s: status %d from %s: %v", tenant, status, body, err)
						}
						if status == http.StatusOK {
							ok.Add(1)
						}
					}
				})
			}
		}
		wg.Go(func() {
			for range n {
				if status, body, err := send("nobody"); status != http.StatusServiceUnavailable || err != nil {
					t.Errorf("without backends: status %d, %s, %v", status, body, err)
				}
			}
		})
		wg.Wait()
		return ok.Load()
	}

	if n := parallel(20); n != 240 {
		t.Errorf("%d of 240 served", n)
	}
	for i := range f.broken[:5] {
		f.broken[i].Store(i != 3)
	}
	parallel(20)
	for _, b := range f.backends[:5] { // the last one of the third tenant stays
		b.Close()
	}
	parallel(10)
	for _, u := range c.upstreams(t) {
		if u.Status != "up" || u.Reason != "unchecked" && u.EjectedUntil == nil || u.LastCheck != nil || u.NextCheck != nil {
			t.Errorf("%+v", u)
		}
	}
	if n := len(c.warnings("cannot be asked without one")); n != 1 || f.probes() != 0 {
		t.Errorf("%d warnings, %d checks", n, f.probes())
	}
	asked := f.queries()
	time.Sleep(6 * time.Second) // longer than a source is left alone
	if n := f.queries(); n != asked {
		t.Errorf("%d queries without a request", n-asked)
	}
}

// Requests eject a dynamic upstream, a passed check after its hold puts it
// back.
func TestDynamicUpstreamsAreEjected(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.publish("web.internal", 0, 1)
	f.broken[0].Store(true)
	site, url := balancedSite(t, "", "name web", f.a("web.internal"), "health_interval 3s", "health_increment 0",
		"fail_duration 1m", "max_fails 3", "unhealthy_status 500")
	c := startCaddy(t, site)
	c.waitStatuses(t, "web", map[string]string{f.addresses[0]: "up", f.addresses[1]: "up"})
	for range 6 {
		get(t, url)
	}
	shown := c.upstream(t, f.addresses[0])
	if shown.EjectedUntil == nil || shown.InRotation || shown.Status != "up" || shown.Requests != 3 {
		t.Fatalf("%+v", shown)
	}
	f.broken[0].Store(false)
	for time.Until(*shown.EjectedUntil) > time.Second {
		get(t, url)
	}
	if n := f.backends[0].requests.Load(); n != 3 {
		t.Errorf("%d requests during the hold", n-3)
	}
	c.waitInRotation(t, f.addresses[0])
	requireShares(t, url, 30, f.addresses...)

	// It stays when it is the only one: the other one, though up, is gone.
	f.broken[0].Store(true)
	f.publish("web.internal", 0)
	time.Sleep(50 * time.Millisecond) // longer than answers are kept
	for range 6 {
		if status, body := get(t, url); status != http.StatusInternalServerError || body != f.addresses[0] {
			t.Errorf("status %d: %s", status, body)
		}
	}
}

// The cookie policy keeps clients where they are while the others come and
// go, and cookies of reverse_proxy stay good.
func TestDynamicStickiness(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	const ours, stock = "load-balance.internal", "reverse-proxy.internal"
	f.publish(ours, 0, 1, 2)
	f.publish(stock, 0, 1, 2)
	sites, urls := bothSites(t, func(directive string) []string {
		return []string{f.a(strings.ReplaceAll(directive, "_", "-") + ".internal"), "lb_policy cookie lb secret"}
	})
	c := startCaddy(t, sites)
	c.waitStatuses(t, "dynamic", map[string]string{f.addresses[0]: "up", f.addresses[1]: "up", f.addresses[2]: "up"})

	homes := make(map[string]string) // by cookie
	for range 200 {                  // each draws its home: with 12, one in 43 runs missed one
		resp, body := getWith(t, urls["reverse_proxy"], nil)
		homes[resp.Header.Get("Set-Cookie")] = body
	}
	if len(homes) != 3 {
		t.Fatalf("cookies %v", homes)
	}
	stay := func(gone string) {
		t.Helper()
		for cookie, home := range homes {
			for range 5 {
				resp, body := getWith(t, urls["load_balance"], http.Header{"Cookie": {cookie}})
				if resp.StatusCode != http.StatusOK || (body == home) == (home == gone) {
					t.Errorf("the client at home at %s is at %s, status %d", home, body, resp.StatusCode)
				}
			}
		}
	}
	stay("")
	f.publish(ours, 3, 2, 1, 0)
	time.Sleep(50 * time.Millisecond) // longer than answers are kept
	stay("")
	f.publish(ours, 3, 2, 1)
	time.Sleep(50 * time.Millisecond)
	stay(f.addresses[0])
}

// An operator has a dynamic upstream checked like any other.
func TestDynamicOperatorCheck(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.publish("web.internal", 0)
	f.sick[0].Store(true)
	site, url := balancedSite(t, "", "name web", f.a("web.internal"), "health_uri /health", "health_interval 1h")
	c := startCaddy(t, site)
	c.waitStatuses(t, "web", map[string]string{f.addresses[0]: "down"})
	f.sick[0].Store(false)
	for _, action := range []string{"check", "readmit"} { // the second one has nothing to do
		rows := c.act(t, action+"?pool=web&upstream="+f.addresses[0])
		if len(rows) != 1 || rows[0]["address"] != f.addresses[0] {
			t.Errorf("%s: %v", action, rows)
		}
		c.waitStatuses(t, "web", map[string]string{f.addresses[0]: "up"})
	}
	if status, body := get(t, url); status != http.StatusOK || body != f.addresses[0] {
		t.Errorf("status %d: %s", status, body)
	}
	if n := f.probes(); n != 2 {
		t.Errorf("%d checks", n)
	}
	if status, body := c.api(t, http.MethodPost, "/load_balance/check?upstream="+f.addresses[1]); status != http.StatusNotFound {
		t.Errorf("one that was never named: status %d: %s", status, body)
	}
}
