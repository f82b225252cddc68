package caddyfile

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// An entry is an option with the upstreams that it adds.
type entry struct {
	text  string
	dials []upstreams.Config
}

// entries are options of ours and of Caddy's whose order must not matter, but
// for that of the upstreams. Words that are options of ours stand as
// arguments and in nested blocks, too.
var entries = []entry{
	{text: "name pool"},
	{text: "slow_start 40s"},
	{text: "start_wait 1s"},
	{text: "when_all_down try_all"},
	{text: "health_protocol grpc name"},
	{text: "health_increment 2s"},
	{text: "health_max_interval 30s"},
	{text: "health_jitter 20%"},
	{text: "health_max_failures 7"},
	{text: "health_readmit_after never"},
	{"upstream b {\nmax_requests 2\n}", []upstreams.Config{{Dial: "b:80", MaxRequests: 2}}},
	{"upstream c:1-2 {\nweight 4\nmax_requests 3\nbackup\n}", []upstreams.Config{{Dial: "c:1", MaxRequests: 3, Weight: 4, Backup: true}, {Dial: "c:2", MaxRequests: 3, Weight: 4, Backup: true}}},
	{"upstream e {\nbackup\n}", []upstreams.Config{{Dial: "e:80", Backup: true}}},
	{"upstream d", []upstreams.Config{{Dial: "d:80"}}},
	{"upstream b", []upstreams.Config{{Dial: "b:80", MaxRequests: 2}}},
	{"to name upstream b a", []upstreams.Config{{Dial: "name:80"}, {Dial: "upstream:80"}, {Dial: "b:80", MaxRequests: 2}, {Dial: "a:80"}}},

	{text: "lb_policy smooth_round_robin"},
	{text: "lb_retries 0"},
	{text: "lb_try_duration 3s"},
	{text: "lb_try_interval 100ms"},
	{text: "lb_retry_match {\nheader name upstream\nmethod POST\n}"},
	{text: "health_uri /health?name=upstream"},
	{text: "health_port 8081"},
	{text: "health_interval 6s"},
	{text: "health_passes 2"},
	{text: "health_fails 3"},
	{text: "health_timeout 4s"},
	{text: "health_status 2xx"},
	{text: "health_body name"},
	{text: "health_method POST"},
	{text: "health_request_body \"name upstream\nhealth_jitter 5\""},
	{text: "health_follow_redirects"},
	{text: "health_headers {\nname x\nupstream y\nhealth_jitter 50\n}"},
	{text: "fail_duration 30s"},
	{text: "max_fails 4"},
	{text: "unhealthy_status 5xx 429"},
	{text: "unhealthy_latency 2s"},
	{text: "unhealthy_request_count 50"},
	{text: "flush_interval -1"},
	{text: "request_buffers 4KiB"},
	{text: "stream_timeout 24h"},
	{text: "trusted_proxies private_ranges"},
	{text: "header_up name upstream"},
	{text: "header_down health_jitter name"},
	{text: "method GET"},
	{text: "rewrite /name"},
	{text: "transport http {\ndial_timeout 1s\ntls_insecure_skip_verify\nversions 1.1\n}"},
	{text: "@name {\nstatus 500 503\nheader name upstream\n}"},
	{text: "@upstream status 404"},
	{text: "handle_response @name {\nheader name upstream\nrespond \"name\" 500 {\nclose\n}\n}"},
	{text: "handle_response {\nreverse_proxy x {\nhealth_interval 1s\nlb_retries 9\nto name\n}\n}"},
	{text: "replace_status 404"},
	{text: "verbose_logs"},
	{text: "proxy_status_name name"},
}

func inOrder(order []int) (text string, dials []upstreams.Config) {
	lines := []string{"load_balance a {"}
	dials = []upstreams.Config{{Dial: "a:80"}}
	for _, i := range order {
		lines = append(lines, entries[i].text)
		dials = append(dials, entries[i].dials...)
	}
	return strings.Join(append(lines, "}"), "\n"), dials
}

// All options, in any order, with nested blocks in the middle: every one
// lands in the result.
func TestAnyOrder(t *testing.T) {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	text, dials := inOrder(order)
	first := mustParse(t, text)
	if !slices.Equal(first.Upstreams, dials) {
		t.Fatalf("got upstreams %+v, want %+v", first.Upstreams, dials)
	}
	first.Upstreams = nil
	want := asJSON(t, first)
	for _, part := range []string{
		`"Name": "pool"`, `"SlowStart": 40000000000`, `"policy": "smooth_round_robin"`, `"StartWait": 1000000000`, `"WhenAllDown": "try_all"`, `"Retries": 0`,
		`"protocol": "grpc"`, `"service": "name"`, `"increment": 2000000000`, `"max_interval": 30000000000`, `"jitter": 20`,
		`"max_failures": 7`, `"readmit_after": -1`, `"interval": 6000000000`, `"port": 8081`,
	} {
		if !strings.Contains(want, part) {
			t.Errorf("no %s in %s", part, want)
		}
	}

	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		text, dials := inOrder(order)
		dir := mustParse(t, text)
		if !slices.Equal(dir.Upstreams, dials) {
			t.Fatalf("got upstreams %+v, want %+v for\n%s", dir.Upstreams, dials, text)
		}
		dir.Upstreams = nil
		if got := asJSON(t, dir); got != want {
			t.Fatalf("got %s\nwant %s\nfor\n%s", got, want, text)
		}
	}
}

// Whichever single option is left out, only that one is missing: none
// depends on another.
func TestLeftOut(t *testing.T) {
	all := make([]int, len(entries))
	for i := range all {
		all[i] = i
	}
	text, _ := inOrder(all)
	complete := asJSON(t, mustParse(t, text))
	for i, left := range entries {
		if left.text == "@name {\nstatus 500 503\nheader name upstream\n}" || strings.HasPrefix(left.text, "@upstream") {
			continue // has no trace of its own, or is needed by another
		}
		text, _ := inOrder(slices.Delete(slices.Clone(all), i, i+1))
		if asJSON(t, mustParse(t, text)) == complete {
			t.Errorf("%s leaves no trace", left.text)
		}
	}
}
