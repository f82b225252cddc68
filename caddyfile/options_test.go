package caddyfile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

func ptr[T any](value T) *T { return &value }

// Every option of ours, given alone, sets its field and nothing else.
func TestOptions(t *testing.T) {
	second := caddy.Duration(time.Second)
	check := func(config healthcheck.Config) Directive { return Directive{Active: &config} }
	for _, tt := range []struct {
		name string
		want Directive
	}{
		{"name pool", Directive{Name: "pool"}},
		{`name "two words"`, Directive{Name: "two words"}},
		{"slow_start 30s", Directive{SlowStart: 30 * second}},
		{"slow_start 0", Directive{}},
		{"start_wait 1s", Directive{StartWait: &second}},
		{"start_wait 0", Directive{StartWait: ptr(caddy.Duration(0))}},
		{"start_wait 0s", Directive{StartWait: ptr(caddy.Duration(0))}},
		{"start_wait 5s", Directive{StartWait: ptr(5 * second)}},
		{"start_wait 1d", Directive{StartWait: ptr(24 * 3600 * second)}},
		{"when_all_down 503", Directive{WhenAllDown: upstreams.AnswerUnavailable}},
		{"when_all_down try_all", Directive{WhenAllDown: upstreams.TryAll}},
		{"health_protocol http", check(healthcheck.Config{Protocol: healthcheck.ProtocolHTTP})},
		{"health_protocol tcp", check(healthcheck.Config{Protocol: healthcheck.ProtocolTCP})},
		{"health_protocol grpc", check(healthcheck.Config{Protocol: healthcheck.ProtocolGRPC})},
		{"health_protocol grpc my.Service", check(healthcheck.Config{Protocol: healthcheck.ProtocolGRPC, Service: "my.Service"})},
		{`health_protocol grpc "my service"`, check(healthcheck.Config{Protocol: healthcheck.ProtocolGRPC, Service: "my service"})},
		{"health_protocol grpc http", check(healthcheck.Config{Protocol: healthcheck.ProtocolGRPC, Service: "http"})},
		{"health_protocol none", check(healthcheck.Config{Protocol: healthcheck.ProtocolNone})},
		{"health_increment 1s", check(healthcheck.Config{Increment: &second})},
		{"health_increment 5s", check(healthcheck.Config{Increment: ptr(5 * second)})},
		{"health_increment 0", check(healthcheck.Config{Increment: ptr(caddy.Duration(0))})},
		{"health_max_interval 5s", check(healthcheck.Config{MaxInterval: 5 * second})},
		{"health_max_interval 1m", check(healthcheck.Config{MaxInterval: 60 * second})},
		{"health_jitter 0", check(healthcheck.Config{Jitter: ptr(0)})},
		{"health_jitter 10", check(healthcheck.Config{Jitter: ptr(10)})},
		{"health_jitter 10%", check(healthcheck.Config{Jitter: ptr(10)})},
		{"health_jitter 100%", check(healthcheck.Config{Jitter: ptr(100)})},
		{"health_max_failures 1", check(healthcheck.Config{MaxFailures: 1})},
		{"health_max_failures 10", check(healthcheck.Config{MaxFailures: 10})},
		{"health_max_failures never", check(healthcheck.Config{MaxFailures: healthcheck.Never})},
		{"health_readmit_after 1s", check(healthcheck.Config{ReadmitAfter: second})},
		{"health_readmit_after 5m", check(healthcheck.Config{ReadmitAfter: 300 * second})},
		{"health_readmit_after never", check(healthcheck.Config{ReadmitAfter: caddy.Duration(healthcheck.Never)})},
		{"lb_retries 0", Directive{Retries: ptr(0)}},
		{"lb_retries 5", Directive{Retries: ptr(5)}},
		{"upstream b", Directive{Upstreams: []upstreams.Config{{Dial: "b:80"}}}},
		{"upstream b {\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80"}}}},
		{"upstream b {\nmax_requests 7\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80", MaxRequests: 7}}}},
		{"upstream b {\nweight 1\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80", Weight: 1}}}},
		{"upstream b {\nweight 256\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80", Weight: 256}}}},
		{"upstream b {\nbackup\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80", Backup: true}}}},
		{"upstream b {\nbackup\nweight 3\nmax_requests 7\n}", Directive{Upstreams: []upstreams.Config{{Dial: "b:80", MaxRequests: 7, Weight: 3, Backup: true}}}},
		{"", Directive{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := mustParse(t, "load_balance a {\n"+tt.name+"\n}")
			tt.want.Upstreams = append([]upstreams.Config{{Dial: "a:80"}}, tt.want.Upstreams...)
			if asJSON(t, dir.Proxy) != "{}" {
				t.Errorf("something is left of Caddy's handler: %s", asJSON(t, dir.Proxy))
			}
			dir.Proxy = nil
			if !reflect.DeepEqual(*dir, tt.want) {
				t.Errorf("got %s\nwant %s", asJSON(t, dir), asJSON(t, tt.want))
			}
		})
	}
}

// Every kind of bad value is refused, at its line, with the option and the
// value named.
func TestBadOptions(t *testing.T) {
	durations := []string{"-5s", "-1ns", "5", "-1", "five", "5s5", "10000000h", "99999999999999999999s", "1e3s", `""`, "never", "Never", "0x5s", "NaNs", `"5 s"`}
	zeros := []string{"0", "0s", "0.1ns", "-0s"}
	counts := []string{"0", "-1", "-5", "1.5", "1e3", "five", "0x10", "1_000", "99999999999999999999", `""`, "5s", "10%", "Never"}
	for option, values := range map[string][]string{
		"name":                 {`""`},
		"start_wait":           durations,
		"when_all_down":        {"502", "try-all", "TRY_ALL", `""`, "5030"},
		"health_protocol":      {"gRPC", "grpcs", "https", "HTTP", `""`, "udp"},
		"health_increment":     durations,
		"health_max_interval":  append(zeros, durations...),
		"health_jitter":        {"-1", "101", "101%", "10%%", "%", "10.5", "ten", "99999999999999999999", `""`, "never", "5s"},
		"health_max_failures":  counts,
		"health_readmit_after": append(append(zeros, durations[:10]...), "Never"),
		"max_requests":         append(counts, "never"),
		"weight":               append(counts, "257", "never"),
		"slow_start":           durations,
	} {
		for _, value := range values {
			t.Run(option+" "+value, func(t *testing.T) {
				text := inBlock(option, option+" "+value)
				_, err := parse(t, text)
				wantError(t, err, text, option+": must ", "not '")
				_, err = parse(t, inBlock(option, option+" "+value+" extra"))
				wantError(t, err, text, option+": surplus argument ")
			})
		}
	}
}

// Every option wants one argument and no block, once.
func TestOptionShape(t *testing.T) {
	for option, value := range map[string]string{
		"name":                 "pool",
		"start_wait":           "5s",
		"when_all_down":        "503",
		"health_protocol":      "http",
		"health_increment":     "5s",
		"health_max_interval":  "60s",
		"health_jitter":        "10%",
		"health_max_failures":  "10",
		"health_readmit_after": "5m",
		"max_requests":         "10",
		"weight":               "10",
		"slow_start":           "10s",
		"upstream":             "localhost:8080",
	} {
		good := option + " " + value
		if _, err := parse(t, inBlock(option, good)); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name, lines string
			parts       []string
		}{
			{"missing", option, []string{option + ": the argument is missing"}},
			{"missing before a block", option + " {\n}", []string{option + ": the argument is missing"}},
			{"surplus", good + " more", []string{option + ": surplus argument 'more' after '" + value + "'"}},
			{"surplus before a block", good + " more {\nx\n}", []string{option + ": surplus argument 'more'"}},
			{"closing brace", good + " }", []string{option + ": surplus argument '}'"}},
			{"block", good + " {\nsomething\n}", []string{option + ": unexpected block"}},
			{"empty block", good + " {\n}", []string{option + ": unexpected block"}},
			{"twice", good + "\n" + good + " # here", []string{option + ": given twice, first at Caddyfile:"}},
		} {
			if option == "upstream" && (tt.name == "twice" || tt.name == "block" || tt.name == "empty block") {
				continue
			}
			t.Run(option+"/"+tt.name, func(t *testing.T) {
				text := inBlock(option, tt.lines)
				_, err := parse(t, text)
				wantError(t, err, text, tt.parts...)
			})
		}
	}
}

// backup takes neither an argument nor a block, once.
func TestBackupShape(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"argument", "backup yes", "backup: surplus argument 'yes'"},
		{"empty argument", `backup ""`, "backup: surplus argument ''"},
		{"closing brace", "backup }", "backup: surplus argument '}'"},
		{"argument before a block", "backup yes {\n}", "backup: surplus argument 'yes'"},
		{"block", "backup {\nsomething\n}", "backup: unexpected block"},
		{"empty block", "backup {\n}", "backup: unexpected block"},
		{"twice", "backup\nbackup # here", "backup: given twice, first at Caddyfile:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := inBlock("backup", tt.lines)
			_, err := parse(t, text)
			wantError(t, err, text, tt.want)
		})
	}
}

// Only checks over gRPC have a service, one, and it has a name.
func TestProtocolService(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"http", "health_protocol http my.Service", "health_protocol: surplus argument 'my.Service' after 'http'"},
		{"tcp", "health_protocol tcp my.Service", "health_protocol: surplus argument 'my.Service' after 'tcp'"},
		{"none", "health_protocol none my.Service", "health_protocol: surplus argument 'my.Service' after 'none'"},
		{"two", "health_protocol grpc my.Service other", "health_protocol: surplus argument 'other'"},
		{"empty", `health_protocol grpc ""`, "health_protocol: the service must not be empty"},
		{"block", "health_protocol grpc my.Service {\nsomething\n}", "health_protocol: unexpected block"},
		{"twice", "health_protocol grpc my.Service\nhealth_protocol grpc other # here", "health_protocol: given twice, first at Caddyfile:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := inBlock("health_protocol", tt.lines)
			_, err := parse(t, text)
			wantError(t, err, text, tt.want)
		})
	}
}

// inBlock puts lines where the option belongs, between others, and marks the
// first of them as the one with the error, if none is marked.
func inBlock(option, lines string) string {
	if !strings.Contains(lines, "# here") {
		first, more, _ := strings.Cut(lines, "\n")
		lines = first + " # here\n" + more
	}
	if _, inner := upstreamOptions[option]; inner {
		lines = fmt.Sprintf("upstream b {\n%s\n}", lines)
	}
	return fmt.Sprintf("load_balance a {\nhealth_uri /\nhealth_headers {\nname x\n}\n%s\nlb_policy round_robin\n}", lines)
}

// Options that do not exist are refused, also ours in the wrong place.
func TestUnknownOptions(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nonsense", "nonsense 1 # here", "unrecognized subdirective nonsense"},
		{"backup outside", "backup # here", "unrecognized subdirective backup"},
		{"max requests outside", "max_requests 5 # here", "unrecognized subdirective max_requests"},
		{"weight outside", "weight 5 # here", "unrecognized subdirective weight"},
		{"upper case", "NAME x # here", "unrecognized subdirective NAME"},
		{"slow start inside", "upstream b {\nmax_requests 5\nslow_start 5s # here\n}", "upstream: unrecognized option slow_start"},
		{"caddy's inside", "upstream b {\nhealth_uri / # here\n}", "upstream: unrecognized option health_uri"},
		{"ours inside", "upstream b {\nname x # here\n}", "upstream: unrecognized option name"},
		{"upstream inside", "upstream b {\nupstream c # here\n}", "upstream: unrecognized option upstream"},
		{"brace first", "upstream b {\n} max_requests 5 # here\n}", "upstream: unrecognized option }"},
		{"behind another", "health_uri / name x # here", "unrecognized subdirective name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "load_balance a {\n" + tt.text + "\n}"
			_, err := parse(t, text)
			wantError(t, err, text, tt.want)
		})
	}
}
