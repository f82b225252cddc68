package caddyfile

import (
	"reflect"
	"testing"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// stockDirectives have options of Caddy's only.
var stockDirectives = []struct{ name, text string }{
	{"bare", "load_balance"},
	{"upstreams", "load_balance a b:1 unix//c"},
	{"https", "load_balance https://a https://b:1"},
	{"h2c", "load_balance h2c://a"},
	{"empty block", "load_balance a {\n}"},
	{"braces in one token", "load_balance a {}"},
	{"placeholder", "load_balance {vars.x}:80 {http.request.header.y}"},
	{"range", "load_balance a:1-5 {\nto b:1-2 b:2\n}"},
	{"retries", "load_balance a {\nlb_retries 3\n}"},
	{"no retries", "load_balance a {\nlb_retries 0\n}"},
	{"policy", "load_balance a b {\nlb_policy cookie name value {\nfallback first\n}\n}"},
	{"weights", "load_balance a b {\nlb_policy weighted_round_robin 3 1\n}"},
	{"smooth", "load_balance a b {\nlb_policy smooth_round_robin\n}"},
	{"smooth weights", "load_balance a b {\nlb_policy smooth_round_robin 3 1 0\n}"},
	{"smooth fallback", "load_balance a b {\nlb_policy header name {\nfallback smooth_round_robin 3 1\n}\n}"},
	{"try", "load_balance a b {\nlb_try_duration 5s\nlb_try_interval 100ms\nlb_retry_match path /x\nlb_retry_match {\nmethod POST\npath /y\n}\n}"},
	{"zero try", "load_balance a b {\nlb_try_duration 0\n}"},
	{"checks", "load_balance a {\nhealth_uri /x?y=z\nhealth_port 1\nhealth_interval 10s\nhealth_timeout 2s\nhealth_passes 2\nhealth_fails 3\nhealth_status 2xx\nhealth_body ok\nhealth_method HEAD\nhealth_request_body x\nhealth_follow_redirects\nhealth_headers {\nHost x\nA b c\nname\n}\n}"},
	{"zero checks", "load_balance a {\nhealth_passes 0\nhealth_interval 0\n}"},
	{"checks elsewhere", "load_balance a {\nhealth_upstream b:65535\n}"},
	{"last one counts", "load_balance a {\nhealth_interval -1s\nhealth_interval 7s\nlb_retries -5\nlb_retries 4\nhealth_port 99999\nhealth_port 65535\nhealth_timeout -1s\nhealth_timeout 1s\n}"},
	{"several on a line", "load_balance a {\nhealth_uri /x health_port 8 lb_retries 0\nlb_try_duration 5s lb_try_interval 6s to b\n}"},
	{"brace behind an option", "load_balance a {\nlb_retries 3 }"},
	{"passive", "load_balance a {\nfail_duration 30s\nmax_fails 3\nunhealthy_status 5xx 429\nunhealthy_latency 5s\nunhealthy_request_count 9\n}"},
	{"all health", "load_balance a {\nfail_duration 30s\nhealth_uri /\n}"},
	{"headers", "load_balance a {\nheader_up Host {upstream_hostport}\nheader_up name\nheader_up -upstream\nheader_up +x y\nheader_up x y z\nheader_down -Server\n}"},
	{"transport", "load_balance https://a {\ntransport http {\ntls_server_name x\ntls_insecure_skip_verify\nkeepalive 5s\nversions 1.1 2\n}\n}"},
	{"empty transport", "load_balance a {\ntransport http {\n}\n}"},
	{"fastcgi", "load_balance a:9000 {\ntransport fastcgi {\nroot /srv\nsplit .php\nenv name upstream\n}\n}"},
	{"dynamic", "load_balance {\ndynamic a example.com 80 {\nrefresh 1m\n}\n}"},
	{"streaming", "load_balance a {\nflush_interval -1\nrequest_buffers 4KiB\nresponse_buffers unlimited\nstream_timeout 1h\nstream_close_delay 5m\nverbose_logs\n}"},
	{"responses", "load_balance a {\n@x {\nstatus 500\nheader name upstream\n}\n@y status 404\nreplace_status @y 200\nreplace_status 201\nhandle_response {\nrespond name\n}\nhandle_response @x {\n@in path /in\nhandle @in {\nrespond 1\n}\nhandle {\nrespond 2\n}\n}\n}"},
	{"empty response", "load_balance a {\nhandle_response {\n}\n}"},
	{"nested", "load_balance a {\nhandle_response {\nreverse_proxy b {\nhealth_interval -5s\nhealth_port 0\nlb_retries 0\n}\n}\n}"},
	{"words of ours as values", "load_balance name upstream {\nto start_wait\nhealth_uri name\nhealth_body upstream\nheader_up health_jitter lb_retries name\nmethod name\nrewrite upstream\ntrusted_proxies name health_port\n}"},
	{"heredoc", "load_balance a {\nhealth_request_body <<END\nname x\n}\nupstream y {\nEND\nhealth_uri /\n}"},
	{"quoted braces", "load_balance a {\nheader_up x \"{\"\nheader_up y \"}\"\nheader_up z `{`\nto b\n}"},
	{"escaped line break", "load_balance a {\nto b \\\nname \\\nupstream\n}"},
}

// Caddy's options give exactly what Caddy's own parser gives.
func TestStock(t *testing.T) {
	for _, tt := range stockDirectives {
		t.Run(tt.name, func(t *testing.T) {
			want, err := stock(t, tt.text)
			if err != nil {
				t.Fatalf("Caddy refuses it: %v", err)
			}
			got := asStock(mustParse(t, tt.text))
			dropEmpty(want)
			if asJSON(t, got) != asJSON(t, want) {
				t.Errorf("got %s\nwant %s", asJSON(t, got), asJSON(t, want))
			}
		})
	}
}

// What Caddy refuses is refused with Caddy's words.
func TestStockErrors(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"unknown", "nonsense"},
		{"no argument", "lb_retries"},
		{"no number", "lb_retries x"},
		{"block", "lb_retries 3 {\n}"},
		{"surplus", "health_follow_redirects yes"},
		{"duration", "health_interval 5"},
		{"address", "to http://a/b"},
		{"two policies", "lb_policy first\nlb_policy random"},
		{"policy", "lb_policy nonsense"},
		{"transport", "transport nonsense"},
		{"matcher", "handle_response @nonsense {\n}"},
		{"directive", "handle_response {\nnonsense\n}"},
		{"brace", "{\nto b\n}"},
		{"behind a block", "transport http {\n} name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "load_balance a {\n" + tt.text + "\n}"
			_, want := stock(t, text)
			_, err := parse(t, text)
			if want == nil || err == nil || err.Error() != want.Error() {
				t.Errorf("got error %v, want %v", err, want)
			}
		})
	}
}

// Values that Caddy's parser lets through, and that would fail at run time.
func TestStockMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"interval", "health_interval -5s # here", "health_interval: must not be negative, not '-5s'"},
		{"timeout", "health_timeout -1ms # here", "health_timeout: must not be negative, not '-1ms'"},
		{"retries", "lb_retries -1 # here", "lb_retries: must not be negative, not '-1'"},
		{"fewest retries", "lb_retries -9223372036854775808 # here", "lb_retries: must not be negative, not '-9223372036854775808'"},
		{"port 0", "health_port 0 # here", "health_port: must be from 1 to 65535, not '0'"},
		{"port below", "health_port -1 # here", "health_port: must be from 1 to 65535, not '-1'"},
		{"port above", "health_port 65536 # here", "health_port: must be from 1 to 65535, not '65536'"},
		{"last one counts", "health_interval 5s\nhealth_interval -7s # here", "not '-7s'"},
		{"last zero counts", "health_port 80\nhealth_port 0 # here", "not '0'"},
		{"several on a line", "health_uri / health_port 0 health_body x # here", "health_port: must be from 1 to 65535, not '0'"},
		{"beside a nested one", "health_interval -5s # here\nhandle_response {\nreverse_proxy b {\nhealth_interval 1s\n}\n}", "not '-5s'"},
		{"beside its name as an argument", "health_port 0 # here\nhealth_body health_port", "not '"},
		{"max interval", "health_interval 30s\nhealth_max_interval 29s # here", "health_max_interval: must not be below health_interval, 30s, not '29s'"},
		{"max interval first", "health_max_interval 29s # here\nhealth_interval 30s", "health_max_interval: must not be below health_interval, 30s, not '29s'"},
		{"max interval, default", "health_max_interval 4999ms # here", "health_max_interval: must not be below health_interval, 5s, not '4999ms'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "load_balance a {\nto b\n" + tt.text + "\nlb_policy first\n}"
			_, err := parse(t, text)
			wantError(t, err, text, tt.want)
		})
	}
	mustParse(t, "load_balance a {\nhealth_interval 90s\nhealth_max_failures 5\n}") // not given: no error
	mustParse(t, "load_balance a {\nhealth_interval 90s\nhealth_max_interval 90s\n}")
}

// Retries tells 0 from nothing.
func TestRetries(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *int
	}{
		{"nothing", "", nil},
		{"other options", "lb_try_duration 5s", nil},
		{"zero", "lb_retries 0", new(int)},
		{"zero and others", "lb_policy first\nlb_retries 0\nlb_try_duration 5s", new(int)},
		{"zero behind another", "lb_try_duration 5s lb_retries 0", new(int)},
		{"last one counts", "lb_retries 3\nlb_retries 0", new(int)},
		{"as an argument", "lb_policy first\nheader_up x lb_retries 0", nil},
		{"nested", "lb_policy first\nhandle_response {\nreverse_proxy b {\nlb_retries 0\n}\n}", nil},
		{"five", "lb_retries 5", ptr(5)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustParse(t, "load_balance a {\n"+tt.text+"\n}").Retries
			if asJSON(t, got) != asJSON(t, tt.want) {
				t.Errorf("got %s, want %s", asJSON(t, got), asJSON(t, tt.want))
			}
		})
	}
}

// stock has Caddy alone parse a directive.
func stock(t testing.TB, text string) (*reverseproxy.Handler, error) {
	t.Helper()
	tokens, err := lex.Tokenize([]byte(text), "Caddyfile")
	if err != nil {
		t.Fatalf("tokenizing: %v\n%s", err, text)
	}
	return stockHandler(helper(t).WithDispenser(lex.NewDispenser(tokens)))
}

func stockHandler(h httpcaddyfile.Helper) (*reverseproxy.Handler, error) {
	proxy := new(reverseproxy.Handler)
	if err := proxy.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return proxy, proxy.FinalizeUnmarshalCaddyfile(h)
}

// asStock puts what a directive holds back to where Caddy's parser had it.
func asStock(dir *Directive) *reverseproxy.Handler {
	proxy := dir.Proxy
	for _, up := range dir.Upstreams {
		if up != (upstreams.Config{Dial: up.Dial}) {
			panic("options of ours where there should be none")
		}
		proxy.Upstreams = append(proxy.Upstreams, &reverseproxy.Upstream{Dial: up.Dial})
	}
	if dir.Retries != nil {
		if proxy.LoadBalancing == nil {
			proxy.LoadBalancing = new(reverseproxy.LoadBalancing)
		}
		proxy.LoadBalancing.Retries = *dir.Retries
	}
	if dir.Active != nil {
		if proxy.HealthChecks == nil {
			proxy.HealthChecks = new(reverseproxy.HealthChecks)
		}
		proxy.HealthChecks.Active = &dir.Active.ActiveHealthChecks
	}
	dropEmpty(proxy)
	return proxy
}

// dropEmpty drops the objects that options set to zero leave empty: they say
// nothing.
func dropEmpty(proxy *reverseproxy.Handler) {
	if reflect.DeepEqual(proxy.LoadBalancing, new(reverseproxy.LoadBalancing)) {
		proxy.LoadBalancing = nil
	}
	checks := proxy.HealthChecks
	if checks != nil && reflect.DeepEqual(checks.Active, new(reverseproxy.ActiveHealthChecks)) {
		checks.Active = nil
	}
	if checks != nil && checks.Active == nil && checks.Passive == nil {
		proxy.HealthChecks = nil
	}
}
