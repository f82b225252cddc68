package integration

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"
)

// Tests of Caddy's selection policies over a changing rotation.

// A wanted is a policy under test and what a request for one key looks like:
// policies that stick to something stick to the key.
type wanted struct {
	name, options string
	// client sends a request for the key and returns who served it. If it is
	// nil, the policy knows no keys.
	client func(t testing.TB, url string, key int) string
}

func policies() []wanted {
	header := func(name string) func(testing.TB, string, int) string {
		return func(t testing.TB, url string, key int) string {
			t.Helper()
			_, body := getWith(t, url, http.Header{name: {fmt.Sprintf("192.0.2.%d", key)}})
			return body
		}
	}
	cookies := make(map[int]http.CookieJar)
	return []wanted{
		{name: "random", options: "lb_policy random"},
		{name: "random_choose", options: "lb_policy random_choose 2"},
		{name: "first", options: "lb_policy first"},
		{name: "least_conn", options: "lb_policy least_conn"},
		{name: "round_robin", options: "lb_policy round_robin"},
		{name: "weighted_round_robin", options: "lb_policy weighted_round_robin 3 2 1"},
		{name: "smooth_round_robin", options: "lb_policy smooth_round_robin 3 2 1"},
		{name: "default"},
		{name: "ip_hash", options: "lb_policy ip_hash", client: getFrom},
		{name: "client_ip_hash", options: "lb_policy client_ip_hash", client: header("X-Forwarded-For")},
		{name: "uri_hash", options: "lb_policy uri_hash", client: func(t testing.TB, url string, key int) string {
			t.Helper()
			_, body := get(t, fmt.Sprintf("%s/page/%d", url, key))
			return body
		}},
		{name: "query", options: "lb_policy query user", client: func(t testing.TB, url string, key int) string {
			t.Helper()
			_, body := get(t, fmt.Sprintf("%s/?user=%d", url, key))
			return body
		}},
		{name: "header", options: "lb_policy header X-User", client: header("X-User")},
		{name: "cookie", options: "lb_policy cookie name secret", client: func(t testing.TB, url string, key int) string {
			t.Helper()
			if cookies[key] == nil {
				cookies[key], _ = cookiejar.New(nil)
			}
			client := &http.Client{Timeout: patience, Jar: cookies[key], Transport: &http.Transport{DisableKeepAlives: true}}
			return bodyOf(t, client, url)
		}},
	}
}

// getFrom sends a request from an address of its own.
func getFrom(t testing.TB, url string, key int) string {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(key+1))}}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	return bodyOf(t, client, url)
}

func bodyOf(t testing.TB, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// No policy chooses an upstream that is out. Those that stick keep to their
// choice while another one leaves and comes back, and get their first choice
// back with it.
func TestPolicies(t *testing.T) {
	t.Parallel()
	const keys = 60 // that all of them miss one of three does not happen
	patients := []*patient{newPatient(t, false), newPatient(t, false), newPatient(t, false)}
	third := patients[2]
	all := patients[0].addr + " " + patients[1].addr + " " + third.addr
	tests := policies()
	urls := make([]string, len(tests))
	var sites strings.Builder
	for i, tt := range tests {
		addr := freeAddr(t)
		urls[i] = "http://" + addr
		sites.WriteString(site(addr, to(all, "name "+tt.name, brisk, "health_uri /health", "health_increment 0", "health_max_failures never", tt.options)))
	}
	c := launch(t, sites.String(), "servers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t}")
	settled := func(status string) {
		t.Helper()
		eventually(t, third.addr+" is "+status+" everywhere", func() bool {
			rows := c.upstreams(t)
			for _, row := range rows {
				if row.Address == third.addr && row.Status != status || row.Address != third.addr && row.Status != "up" {
					return false
				}
			}
			return len(rows) == 3*len(tests)
		})
	}

	settled("up")
	before := make([]map[int]string, len(tests))
	for i, tt := range tests {
		before[i] = serveKeys(t, tt, urls[i], keys)
		want := 3
		if tt.name == "first" {
			want = 1
		}
		if n := len(distinct(before[i])); n != want && (tt.client != nil || strings.Contains(tt.options, "round_robin")) {
			t.Errorf("%s: %d upstreams serve, want %d", tt.name, n, want)
		}
	}
	third.sick.Store(true)
	settled("down")
	for i, tt := range tests {
		for key, addr := range serveKeys(t, tt, urls[i], keys) {
			first := before[i][key]
			switch {
			case addr == third.addr:
				t.Errorf("%s: chose one that is down", tt.name)
			case tt.client != nil && first != third.addr && addr != first:
				t.Errorf("%s: key %d moved from %s to %s, though %s left", tt.name, key, first, addr, third.addr)
			}
		}
	}
	third.sick.Store(false)
	settled("up")
	for i, tt := range tests {
		if tt.client == nil {
			continue
		}
		for key, addr := range serveKeys(t, tt, urls[i], keys) {
			first := before[i][key]
			if tt.name == "cookie" && first == third.addr { // has a new cookie meanwhile
				continue
			}
			if addr != first {
				t.Errorf("%s: key %d is at %s, was at %s before", tt.name, key, addr, first)
			}
		}
	}
}

// serveKeys sends a request for every key, and returns who served it.
func serveKeys(t testing.TB, policy wanted, url string, keys int) map[int]string {
	t.Helper()
	served := make(map[int]string)
	for key := range keys {
		if policy.client != nil {
			served[key] = policy.client(t, url, key)
		} else {
			_, served[key] = get(t, url)
		}
	}
	return served
}

func distinct(served map[int]string) []string {
	list := slices.Sorted(maps.Values(served))
	return slices.Compact(list)
}

// turns sends n requests one after the other, and returns who served them.
func turns(t testing.TB, addr string, n int) []string {
	t.Helper()
	var order []string
	for range n {
		status, body := get(t, "http://"+addr)
		if status != 200 {
			t.Fatalf("got status %d", status)
		}
		order = append(order, body)
	}
	return order
}

// shares counts turns by upstream, in the order of the addresses; those of
// others come last.
func shares(order []string, addresses ...string) []int {
	counts := make([]int, len(addresses)+1)
	for _, addr := range order {
		i := slices.Index(addresses, addr)
		if i < 0 {
			i = len(addresses)
		}
		counts[i]++
	}
	return counts
}

// By default every upstream gets every n-th request, exactly, in the order of
// the config; so do those that are left when one is out. An address given
// twice has two turns.
func TestRoundRobinOrder(t *testing.T) {
	t.Parallel()
	a, b, d := newPatient(t, false), newPatient(t, false), newPatient(t, false)
	plain, twice, named := freeAddr(t), freeAddr(t), freeAddr(t)
	options := brisk + "health_uri /health\nhealth_increment 0\nhealth_max_failures never"
	c := launch(t, site(plain, to(a.addr+" "+b.addr+" "+d.addr, "name plain", options))+
		site(named, to(a.addr+" "+b.addr+" "+d.addr, "name named", options, "lb_policy round_robin"))+
		site(twice, to(a.addr+" "+b.addr+" "+a.addr+" "+d.addr, "name twice", options)))
	count := func(status string) int {
		n := 0
		for _, row := range c.upstreams(t) {
			if row.Status == status {
				n++
			}
		}
		return n
	}
	period := func(addr string, want ...string) {
		t.Helper()
		n := len(want)
		order := turns(t, addr, 4*n)
		if !rotated(order[:n], want) || !slices.Equal(order[n:], order[:3*n]) {
			t.Errorf("got order %q, want %q again and again", order, want)
		}
	}

	eventually(t, "all are up", func() bool { return count("up") == 9 })
	period(plain, a.addr, b.addr, d.addr)
	period(named, a.addr, b.addr, d.addr)
	period(twice, a.addr, b.addr, a.addr, d.addr)
	b.sick.Store(true)
	eventually(t, "one is down everywhere", func() bool { return count("down") == 3 })
	period(plain, a.addr, d.addr)
	period(named, a.addr, d.addr)
	period(twice, a.addr, a.addr, d.addr)
	b.sick.Store(false)
	eventually(t, "all are up", func() bool { return count("up") == 9 })
	period(plain, a.addr, b.addr, d.addr)
	period(twice, a.addr, b.addr, a.addr, d.addr)
}

// rotated reports whether a is b begun elsewhere.
func rotated(a, b []string) bool {
	for i := range b {
		if slices.Equal(a, slices.Concat(b[i:], b[:i])) {
			return true
		}
	}
	return false
}

// weighted_round_robin weighs by place in the config, also when one is out: a
// weight does not move on to the next one. Weight zero is never picked.
func TestWeightedRoundRobin(t *testing.T) {
	t.Parallel()
	a, b, d := newPatient(t, false), newPatient(t, false), newPatient(t, false)
	options := brisk + "health_uri /health\nhealth_increment 0\nhealth_max_failures never\n"
	all := a.addr + " " + b.addr + " " + d.addr
	tests := []struct {
		weights          string
		none, aOut, bOut []int // shares of a, b and d
		noneOf, aOf, bOf int   // of so many requests
		addr             string
	}{
		{weights: "5 1 0", noneOf: 12, none: []int{10, 2, 0}, aOf: 4, aOut: []int{0, 4, 0}, bOf: 4, bOut: []int{4, 0, 0}},
		{weights: "3 2 1", noneOf: 12, none: []int{6, 4, 2}, aOf: 6, aOut: []int{0, 4, 2}, bOf: 8, bOut: []int{6, 0, 2}},
		{weights: "0 1 3", noneOf: 8, none: []int{0, 2, 6}, aOf: 8, aOut: []int{0, 2, 6}, bOf: 4, bOut: []int{0, 0, 4}},
		{weights: "2 2 2", noneOf: 6, none: []int{2, 2, 2}, aOf: 4, aOut: []int{0, 2, 2}, bOf: 4, bOut: []int{2, 0, 2}},
		{weights: "4 1", noneOf: 10, none: []int{8, 2, 0}, aOf: 3, aOut: []int{0, 3, 0}, bOf: 3, bOut: []int{3, 0, 0}},
	}
	var sites strings.Builder
	for i := range tests {
		tests[i].addr = freeAddr(t)
		sites.WriteString(site(tests[i].addr, to(all, options, fmt.Sprintf("name %q", tests[i].weights), "lb_policy weighted_round_robin "+tests[i].weights)))
	}
	c := launch(t, sites.String())
	wait := func(downs int) {
		t.Helper()
		eventually(t, "statuses have settled", func() bool {
			up, down := 0, 0
			for _, row := range c.upstreams(t) {
				switch row.Status {
				case "up":
					up++
				case "down":
					down++
				}
			}
			return down == downs && up == 3*len(tests)-downs
		})
	}
	check := func(weights, addr string, n int, want []int) {
		t.Helper()
		got := shares(turns(t, addr, n), a.addr, b.addr, d.addr)
		if !slices.Equal(got, append(slices.Clone(want), 0)) {
			t.Errorf("weights %s: got shares %v, want %v", weights, got, want)
		}
	}
	wait(0)
	for _, tt := range tests {
		check(tt.weights, tt.addr, tt.noneOf, tt.none)
	}
	a.sick.Store(true)
	wait(len(tests))
	for _, tt := range tests {
		check(tt.weights, tt.addr, tt.aOf, tt.aOut)
	}
	a.sick.Store(false)
	wait(0)
	b.sick.Store(true)
	wait(len(tests))
	for _, tt := range tests {
		check(tt.weights, tt.addr, tt.bOf, tt.bOut)
	}

	for _, row := range c.upstreams(t) {
		if row.Pool == "5 1 0" {
			want := map[string]int{a.addr: 5, b.addr: 1, d.addr: 0}[row.Address]
			if row.Weight != want {
				t.Errorf("%s is shown with weight %d, want %d", row.Address, row.Weight, want)
			}
		}
	}
	// Only weight zero is left: as with Caddy's own policy, nobody serves.
	a.sick.Store(true)
	wait(2 * len(tests))
	for _, tt := range tests {
		status, body := get(t, "http://"+tt.addr)
		if zero := strings.HasSuffix(tt.weights, " 0") || tt.weights == "4 1"; zero && status != 503 || !zero && body != d.addr {
			t.Errorf("weights %s, only the third is up: status %d, %q", tt.weights, status, body)
		}
	}
}

// smooth_round_robin works in load_balance and in Caddy's own reverse_proxy:
// exact shares by place in the config, spread, in the same proportions when
// one is out. Weight zero is never picked.
func TestSmoothRoundRobin(t *testing.T) {
	t.Parallel()
	a, b, d := newPatient(t, false), newPatient(t, false), newPatient(t, false)
	all := a.addr + " " + b.addr + " " + d.addr
	tests := []struct {
		weights    string
		none, aOut []int // shares of a, b and d in a period
		longest    int   // run of a
	}{
		{weights: "5 1 0", none: []int{5, 1, 0}, aOut: []int{0, 1, 0}, longest: 5},
		{weights: "5 1 1", none: []int{5, 1, 1}, aOut: []int{0, 1, 1}, longest: 3},
		{weights: "3 2 1", none: []int{3, 2, 1}, aOut: []int{0, 2, 1}, longest: 1},
		{weights: "", none: []int{1, 1, 1}, aOut: []int{0, 1, 1}, longest: 1},
	}
	const proxies = 2
	addrs := make([][proxies]string, len(tests))
	var sites strings.Builder
	for i, tt := range tests {
		ours := to(all, brisk, "health_uri /health", "health_increment 0", "health_max_failures never", fmt.Sprintf("name %q", "smooth "+tt.weights))
		stock := to(all, "health_uri /health", "health_interval 100ms")
		for k, options := range [proxies]string{ours, stock} {
			addrs[i][k] = freeAddr(t)
			text := site(addrs[i][k], options+"\nlb_policy smooth_round_robin "+tt.weights)
			if k == 1 {
				text = strings.Replace(text, "load_balance", "reverse_proxy", 1)
			}
			sites.WriteString(text)
		}
	}
	launch(t, sites.String())

	check := func(state string, want func(i int) []int) {
		t.Helper()
		for i, tt := range tests {
			period := 0
			for _, n := range want(i) {
				period += n
			}
			for k, addr := range addrs[i] {
				what := fmt.Sprintf("weights %q, %s, reverse_proxy: %t", tt.weights, state, k == 1)
				serve := func(periods int) (order []string, exact bool) {
					order = turns(t, addr, periods*period)
					got := shares(order, a.addr, b.addr, d.addr)
					for place, n := range want(i) {
						if got[place] != periods*n {
							return order, false
						}
					}
					return order, true
				}
				eventually(t, what, func() bool { _, exact := serve(2); return exact })
				order, exact := serve(4) // once they are right, they stay so
				if !exact {
					t.Errorf("%s: got shares %v, want %v", what, shares(order, a.addr, b.addr, d.addr), want(i))
				}
				if run := longestRun(order, a.addr); run > tt.longest {
					t.Errorf("%s: the first one has %d turns in a row", what, run)
				}
			}
		}
	}
	check("all up", func(i int) []int { return tests[i].none })
	a.sick.Store(true)
	check("first out", func(i int) []int { return tests[i].aOut })
	a.sick.Store(false)
	check("all up again", func(i int) []int { return tests[i].none })
}

// longestRun returns the longest run of the address.
func longestRun(order []string, addr string) int {
	longest, run := 0, 0
	for _, served := range order {
		if served != addr {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// The weights of `upstream` blocks are shares of the turns, by default 1.
func TestWeights(t *testing.T) {
	t.Parallel()
	a, b, d := newPatient(t, false), newPatient(t, false), newPatient(t, false)
	addr := freeAddr(t)
	c := launch(t, site(addr, brisk+"health_uri /health\nhealth_increment 0\nhealth_max_failures never\nupstream "+a.addr+
		" {\nweight 5\n}\nto "+b.addr+"\nupstream "+d.addr+" {\nweight 2\n}"))
	check := func(n int, want ...int) {
		t.Helper()
		if got := shares(turns(t, addr, n), a.addr, b.addr, d.addr); !slices.Equal(got, append(want, 0)) {
			t.Errorf("got shares %v, want %v", got, want)
		}
	}
	c.waitStatus(t, "up", a.addr, b.addr, d.addr)
	for address, want := range map[string]int{a.addr: 5, b.addr: 1, d.addr: 2} {
		if row := c.upstream(t, address); row.Weight != want {
			t.Errorf("%s is shown with weight %d, want %d", address, row.Weight, want)
		}
	}
	check(16, 10, 2, 4)
	b.sick.Store(true)
	c.waitStatus(t, "down", b.addr)
	check(14, 10, 0, 4)
	a.sick.Store(true)
	c.waitStatus(t, "down", a.addr)
	check(6, 0, 0, 6)
}

// least_conn and max_requests count requests under way over all policies: a
// busy upstream is avoided, a full one skipped.
func TestPolicyCountsRequests(t *testing.T) {
	t.Parallel()
	busy := make(chan struct{})
	serve := func(name *string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				<-busy
			}
			_, _ = w.Write([]byte(*name))
		}
	}
	var names [2]string
	a := newWitness(t, serve(&names[0]))
	b := newWitness(t, serve(&names[1]))
	names[0], names[1] = a.addr, b.addr
	least, full := freeAddr(t), freeAddr(t)
	c := launch(t, site(least, to(a.addr+" "+b.addr, "name least", "lb_policy least_conn"))+
		site(full, "name full\nlb_policy first\nupstream "+a.addr+" {\nmax_requests 1\n}\nto "+b.addr))
	eventually(t, "all are up", func() bool {
		for _, row := range c.upstreams(t) {
			if row.Status != "up" {
				return false
			}
		}
		return true
	})
	for _, addr := range []string{least, full} {
		done := inBackground("http://" + addr + "/wait")
		pool := map[string]string{least: "least", full: "full"}[addr]
		var occupied string
		eventually(t, "one is busy", func() bool {
			for _, row := range c.list(t, "?pool="+pool) {
				if row["in_flight"] == 1.0 {
					occupied = row["address"].(string)
				}
			}
			return occupied != ""
		})
		for _, served := range turns(t, addr, 10) {
			if served == occupied {
				t.Errorf("%s: a busy upstream was chosen", pool)
			}
		}
		busy <- struct{}{}
		<-done
	}
	if row := c.row(t, "full"); row.Status != "up" || row.Failures != 0 || row.Errors != 0 {
		t.Errorf("the full one: %+v", row)
	}
}
