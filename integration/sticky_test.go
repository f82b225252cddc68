package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Tests of selection policies, those above all that stick to something. That
// one of three leaves and comes back is shown for each in TestPolicies.

// sticky returns the policies that stick to something.
func sticky() []wanted {
	return slices.DeleteFunc(policies(), func(p wanted) bool { return p.client == nil })
}

// trustLoopback has Caddy believe X-Forwarded-For.
const trustLoopback = "servers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t}"

// Clients stay where they are while an upstream that is not theirs flips,
// also over a reload that turns the order of the upstreams round.
func TestStickinessSurvivesFlips(t *testing.T) {
	t.Parallel()
	const keys = 20
	var on atomic.Bool // whether the third one flips
	var checks atomic.Int64
	steady := []*witness{newWitness(t, nil), newWitness(t, nil)}
	var name string
	flipper := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && on.Load() && checks.Add(1)%4 > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(name))
	})
	name = flipper.addr
	order := []string{steady[0].addr, flipper.addr, steady[1].addr}
	tests := sticky()
	urls := make(map[string]string)
	var listen []string
	for _, tt := range tests {
		addr := freeAddr(t)
		listen = append(listen, addr)
		urls[tt.name] = "http://" + addr
	}
	sites := func() string {
		var text strings.Builder
		for i, tt := range tests {
			text.WriteString(site(listen[i], to(strings.Join(order, " "), "name "+tt.name, flipping, tt.options)))
		}
		return text.String()
	}
	c := launch(t, sites(), trustLoopback)
	for _, tt := range tests {
		c.waitStatusIn(t, tt.name, "up", order...)
	}

	homes := make(map[string]map[int]string)
	for _, tt := range tests {
		homes[tt.name] = serveKeys(t, tt, urls[tt.name], keys)
		if n := len(distinct(homes[tt.name])); n < 2 {
			t.Errorf("%s: %d upstreams serve %d keys", tt.name, n, keys)
		}
	}
	downs := func() int { return len(c.logged("upstream is down")) }
	flip := func() {
		t.Helper()
		rounds, before := 0, downs()
		eventually(t, "it has flipped often", func() bool {
			for _, tt := range tests {
				for key, served := range serveKeys(t, tt, urls[tt.name], keys) {
					if home := homes[tt.name][key]; home != flipper.addr && served != home {
						t.Errorf("%s: key %d is at %s, its home is %s", tt.name, key, served, home)
					}
				}
			}
			rounds++
			return t.Failed() || rounds >= 5 && downs() >= before+5*len(tests)
		})
	}
	on.Store(true)
	flip()
	slices.Reverse(order)
	if err := c.load("text/caddyfile", c.caddyfile(sites(), trustLoopback)); err != nil {
		t.Fatal(err)
	}
	flip()
}

// Whichever upstreams are out, no policy chooses one of them, and those that
// stick keep to their choice as long as it is in rotation. Those that hash get
// back to it afterwards. If all are out, nobody serves.
func TestPoliciesNeverChooseWhatIsOut(t *testing.T) {
	t.Parallel()
	const n, keys = 5, 8
	var patients []*patient
	var all []string
	for range n {
		p := newPatient(t, false)
		patients = append(patients, p)
		all = append(all, p.addr)
	}
	tests := append(policies(),
		wanted{name: "header without it", options: "lb_policy header X-User {\nfallback first\n}"},
		wanted{name: "query without it", options: "lb_policy query user {\nfallback least_conn\n}"},
		wanted{name: "cookie without it", options: "lb_policy cookie {\nfallback round_robin\n}"},
		wanted{name: "retries", options: "lb_policy random\nlb_retries 3\nlb_try_duration 1s"},
	)
	urls := make(map[string]string)
	var sites strings.Builder
	for i := range tests {
		switch name := tests[i].name; name {
		case "weighted_round_robin", "smooth_round_robin": // one without a weight would never be in rotation
			tests[i].options = "lb_policy " + name + " 3 2 1 2 1"
		}
	}
	for i, tt := range tests {
		addr := freeAddr(t)
		urls[tt.name] = "http://" + addr
		sites.WriteString(site(addr, to(strings.Join(all, " "), fmt.Sprintf("name p%d", i), "health_uri /health", fmt.Sprint("health_interval ", lenient(300*time.Millisecond)),
			"health_increment 0", "health_max_failures never", tt.options)))
	}
	c := launch(t, sites.String(), trustLoopback)
	homes := make(map[string]map[int]string)
	for _, out := range [][]int{{}, {0}, {1}, {2}, {3}, {4}, {0, 2}, {1, 3, 4}, {0, 1, 2, 3}, {}} {
		for i, p := range patients {
			p.sick.Store(slices.Contains(out, i))
		}
		eventually(t, fmt.Sprintf("%v are out", out), func() bool {
			rows := c.upstreams(t)
			for _, row := range rows {
				if row.InRotation == slices.Contains(out, slices.Index(all, row.Address)) {
					return false
				}
			}
			return len(rows) == n*len(tests)
		})
		before := make([]int, n)
		for i, p := range patients {
			before[i] = len(p.requests())
		}
		for _, tt := range tests {
			served := serveKeys(t, tt, urls[tt.name], keys)
			for key, home := range homes[tt.name] {
				if tt.client != nil && served[key] != home && !slices.Contains(out, slices.Index(all, home)) {
					t.Errorf("%v are out, %s: key %d moved from %s to %s", out, tt.name, key, home, served[key])
				}
			}
			if homes[tt.name] == nil || tt.name == "cookie" { // has a new one meanwhile
				homes[tt.name] = served
			}
		}
		for _, i := range out {
			if got := len(patients[i].requests()) - before[i]; got > 0 {
				t.Errorf("%v are out, %d requests went to %d", out, got, i)
			}
		}
	}
	for _, p := range patients {
		p.sick.Store(true)
	}
	eventually(t, "all are out", func() bool {
		for _, row := range c.upstreams(t) {
			if row.Status != "down" {
				return false
			}
		}
		return true
	})
	for _, tt := range tests {
		if status, _ := get(t, urls[tt.name]); status != http.StatusServiceUnavailable {
			t.Errorf("all are out, %s: status %d", tt.name, status)
		}
	}
}
