package caddyfile

import (
	"reflect"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

func TestUpstreams(t *testing.T) {
	type list = []upstreams.Config
	for _, tt := range []struct {
		name, text string
		want       list
	}{
		{"none", "load_balance", nil},
		{"arguments", "load_balance a b:1", list{{Dial: "a:80"}, {Dial: "b:1"}}},
		{
			"all three ways, in order",
			"load_balance a {\nupstream b {\nmax_requests 2\n}\nto c d\nupstream e\nupstream f {\nbackup\nweight 3\n}\n}",
			list{{Dial: "a:80"}, {Dial: "b:80", MaxRequests: 2}, {Dial: "c:80"}, {Dial: "d:80"}, {Dial: "e:80"}, {Dial: "f:80", Weight: 3, Backup: true}},
		},
		{
			"one address all three ways",
			"load_balance a {\nto a\nupstream a {\nmax_requests 2\n}\nupstream a\n}",
			list{{Dial: "a:80", MaxRequests: 2}, {Dial: "a:80", MaxRequests: 2}, {Dial: "a:80", MaxRequests: 2}, {Dial: "a:80", MaxRequests: 2}},
		},
		{
			"one address in several spellings",
			"load_balance http://a {\nto http://a:80\nupstream http://a {\nmax_requests 2\n}\n}",
			list{{Dial: "a:80", MaxRequests: 2}, {Dial: "a:80", MaxRequests: 2}, {Dial: "a:80", MaxRequests: 2}},
		},
		{
			"port range",
			"load_balance a:3 {\nupstream a:1-3 {\nmax_requests 2\n}\n}",
			list{{Dial: "a:3", MaxRequests: 2}, {Dial: "a:1", MaxRequests: 2}, {Dial: "a:2", MaxRequests: 2}, {Dial: "a:3", MaxRequests: 2}},
		},
		{
			"scheme and port range",
			"load_balance {\nupstream https://a:1-2 {\nmax_requests 2\n}\n}",
			list{{Dial: "a:1", MaxRequests: 2}, {Dial: "a:2", MaxRequests: 2}},
		},
		{
			"unix socket",
			"load_balance {\nupstream unix//run/app.sock {\nmax_requests 2\n}\n}",
			list{{Dial: "unix//run/app.sock", MaxRequests: 2}},
		},
		{
			"unix socket, h2c",
			"load_balance {\nupstream unix+h2c//run/app.sock {\nmax_requests 2\n}\n}",
			list{{Dial: "unix//run/app.sock", MaxRequests: 2}},
		},
		{
			"placeholders",
			"load_balance {\nupstream {env.HOST}:{env.PORT} {\nmax_requests 2\n}\nupstream {vars.backend} {\nmax_requests 3\n}\n}",
			list{{Dial: "{env.HOST}:{env.PORT}", MaxRequests: 2}, {Dial: "{vars.backend}", MaxRequests: 3}},
		},
		{
			"ipv6",
			"load_balance {\nupstream [::1]:1 {\nmax_requests 2\n}\n}",
			list{{Dial: "[::1]:1", MaxRequests: 2}},
		},
		{
			"quoted",
			"load_balance {\n\"upstream\" \"a:1\" {\n`max_requests` `2`\n}\n}",
			list{{Dial: "a:1", MaxRequests: 2}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := mustParse(t, tt.text)
			if !reflect.DeepEqual(dir.Upstreams, tt.want) {
				t.Errorf("got %+v, want %+v", dir.Upstreams, tt.want)
			}
			if len(dir.Proxy.Upstreams) != 0 {
				t.Errorf("%d upstreams are left in Caddy's handler", len(dir.Proxy.Upstreams))
			}
		})
	}
}

// The scheme of an `upstream` sets the transport, as that of `to` does.
func TestUpstreamScheme(t *testing.T) {
	got := mustParse(t, "load_balance {\nupstream https://a {\nmax_requests 2\n}\n}")
	want := mustParse(t, "load_balance {\nto https://a\n}")
	if asJSON(t, got.Proxy) != asJSON(t, want.Proxy) {
		t.Errorf("got %s, want %s", asJSON(t, got.Proxy), asJSON(t, want.Proxy))
	}
}

// Weights and a slow start work with the round robins that go by them.
func TestWeightAndSlowStartNeedRoundRobin(t *testing.T) {
	const weight, slowStart = "upstream b {\nbackup\nweight 1 # here\n}\n", "slow_start 0 # here\n"
	for _, policy := range []string{"", "lb_policy round_robin\n", "lb_policy smooth_round_robin\n"} {
		mustParse(t, "load_balance a {\n"+policy+weight+slowStart+"}")
	}
	mustParse(t, "load_balance a {\n"+slowStart+"lb_policy smooth_round_robin 2 1\n}")
	mustParse(t, "load_balance a {\nupstream b {\nbackup\n}\nlb_policy least_conn\n}")
	for _, tt := range []struct{ policy, options, want string }{
		{"least_conn", weight, "weight: must stand beside the selection policy round_robin or smooth_round_robin, not 'least_conn'"},
		{"least_conn", slowStart, "slow_start: must stand beside the selection policy round_robin or smooth_round_robin, not 'least_conn'"},
		{"first", "upstream x {\nweight 1 # here\n}\nupstream y {\nweight 2\n}\nslow_start 1s\n", "weight: must "},
		{"header X {\nfallback round_robin\n}", weight, "not 'header'"},
		{"header X {\nfallback round_robin\n}", slowStart, "not 'header'"},
		{"weighted_round_robin 2 1", weight, "weight: must not stand beside a selection policy with weights of its own"},
		{"weighted_round_robin 2 1", slowStart, "slow_start: must stand beside"},
		{"smooth_round_robin 2 1", weight, "weight: must not stand beside a selection policy with weights of its own"},
	} {
		for _, text := range []string{
			"load_balance a {\nlb_policy " + tt.policy + "\n" + tt.options + "}",
			"load_balance a {\n" + tt.options + "lb_retries 3\nlb_policy " + tt.policy + "\n}",
		} {
			t.Run(tt.policy+"/"+tt.options, func(t *testing.T) {
				_, err := parse(t, text)
				wantError(t, err, text, tt.want)
			})
		}
	}
}

func TestBadUpstreams(t *testing.T) {
	const set = " {\nmax_requests 2\n}\n"
	for _, tt := range []struct{ name, text, want string }{
		{"two addresses", "upstream a b # here", "upstream: surplus argument 'b' after 'a'"},
		{"two addresses and a block", "upstream a b { # here\nmax_requests 2\n}", "upstream: surplus argument 'b' after 'a'"},
		{"path", "upstream http://a/path # here", "upstream 'http://a/path'"},
		{"path, with options", "upstream http://a/path { # here\nmax_requests 2\n}", "upstream 'http://a/path'"},
		{"scheme", "upstream ftp://a { # here\nmax_requests 2\n}", "unsupported URL scheme ftp://"},
		{"two schemes", "upstream http://a" + set + "upstream https://b { # here\nmax_requests 2\n}", "must use the same scheme"},
		{"range", "upstream a:9-1 { # here\nmax_requests 2\n}", "a:9-1"},
		{"options twice", "upstream a" + set + "upstream a { # here\nmax_requests 2\n}", "upstream: options of 'a:80' given twice, first at Caddyfile:2"},
		{"options twice, other spelling", "upstream a" + set + "upstream a:80 { # here\nmax_requests 3\n}", "upstream: options of 'a:80' given twice, first at Caddyfile:2"},
		{"overlapping ranges", "upstream a:1-3" + set + "upstream a:3-5 { # here\nmax_requests 3\n}", "upstream: options of 'a:3' given twice, first at Caddyfile:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "load_balance {\n" + tt.text + "\n}"
			_, err := parse(t, text)
			wantError(t, err, text, tt.want)
		})
	}
}
