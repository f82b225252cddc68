package loadbalance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// quiet returns a context that logs nothing.
func quiet(t testing.TB) caddy.Context {
	t.Helper()
	return logging(t, caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)})
}

// logging returns a context with that default log.
func logging(t testing.TB, log caddy.BaseLog) caddy.Context {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: &caddy.Logging{
		Logs: map[string]*caddy.CustomLog{"default": {BaseLog: log}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

func TestCleanupSurvivesWhateverHappenedBefore(t *testing.T) {
	if err := new(Handler).Cleanup(); err != nil {
		t.Errorf("never provisioned: %v", err)
	}
	bad := new(Handler)
	bad.TransportRaw = json.RawMessage(`{"protocol":"no such transport"}`)
	if err := bad.Provision(quiet(t)); err == nil {
		t.Error("provisioned with an unknown transport")
	}
	if err := bad.Cleanup(); err != nil {
		t.Errorf("after a failed Provision: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct{ name, config, field string }{
		{"nothing", `{}`, ""},
		{"fail/max_requests negative", `{"upstreams":[{"dial":"a:1"},{"dial":"b:1","max_requests":-1}]}`, "upstreams[1].max_requests"},
		{"weights", `{"upstreams":[{"dial":"a:1","weight":1},{"dial":"b:1","weight":256,"backup":true}],"slow_start":"30s"}`, ""},
		{"fail/weight negative", `{"upstreams":[{"dial":"a:1"},{"dial":"b:1","weight":-1}]}`, "upstreams[1].weight"},
		{"fail/weight above", `{"upstreams":[{"dial":"a:1","weight":257}]}`, "upstreams[0].weight"},
		{"fail/same address, other weight", `{"upstreams":[{"dial":"a:1","weight":2},{"dial":"a:1"}]}`, "upstreams[1].dial"},
		{"fail/same address, backup", `{"upstreams":[{"dial":"a:1"},{"dial":"a:1","backup":true}]}`, "upstreams[1].dial"},
		{"same address, same options", `{"upstreams":[{"dial":"a:1","weight":2,"backup":true},{"dial":"a:1","weight":2,"backup":true}]}`, ""},
		{"fail/slow_start negative", `{"slow_start":-1}`, "slow_start"},
		{"weight and round_robin", `{"upstreams":[{"dial":"a:1","weight":2}],"slow_start":"5s","load_balancing":{"selection_policy":{"policy":"round_robin"}}}`, ""},
		{"weight and smooth_round_robin", `{"upstreams":[{"dial":"a:1","weight":2}],"slow_start":"5s","load_balancing":{"selection_policy":{"policy":"smooth_round_robin"}}}`, ""},
		{"fail/weight and first", `{"upstreams":[{"dial":"a:1"},{"dial":"b:1","weight":1}],"load_balancing":{"selection_policy":{"policy":"first"}}}`, "upstreams[1].weight"},
		{"fail/weight and the policy's", `{"upstreams":[{"dial":"a:1","weight":1}],"load_balancing":{"selection_policy":{"policy":"smooth_round_robin","weights":[2]}}}`, "upstreams[0].weight"},
		{"fail/slow_start and first", `{"slow_start":1,"load_balancing":{"selection_policy":{"policy":"first"}}}`, "slow_start"},
		{"fail/slow_start and weighted_round_robin", `{"slow_start":1,"load_balancing":{"selection_policy":{"policy":"weighted_round_robin","weights":[2]}}}`, "slow_start"},
		{"slow_start and the policy's weights", `{"slow_start":1,"load_balancing":{"selection_policy":{"policy":"smooth_round_robin","weights":[2]}}}`, ""},
		{"backup and first", `{"upstreams":[{"dial":"a:1","backup":true}],"load_balancing":{"selection_policy":{"policy":"first"}}}`, ""},
		{"fail/retries negative", `{"load_balancing":{"retries":-1}}`, "load_balancing.retries"},
		{"retries zero", `{"load_balancing":{"retries":0}}`, ""},
		{"fail/start_wait negative", `{"start_wait":-1}`, "start_wait"},
		{"start_wait zero", `{"start_wait":0}`, ""},
		{"fail/when_all_down unknown", `{"when_all_down":"502"}`, "when_all_down"},
		{"fail/protocol unknown", `{"health_checks":{"active":{"protocol":"icmp"}}}`, "health_checks.active.protocol"},
		{"protocol grpc", `{"health_checks":{"active":{"protocol":"grpc"}}}`, ""},
		{"service", `{"health_checks":{"active":{"protocol":"grpc","service":"my.Service"}}}`, ""},
		{"fail/service over tcp", `{"health_checks":{"active":{"protocol":"tcp","service":"my.Service"}}}`, "health_checks.active.service"},
		{"fail/service over the default", `{"health_checks":{"active":{"service":"my.Service"}}}`, "health_checks.active.service"},
		{"fail/interval negative", `{"health_checks":{"active":{"interval":"-1s"}}}`, "health_checks.active.interval"},
		{"fail/timeout negative", `{"health_checks":{"active":{"timeout":"-1s"}}}`, "health_checks.active.timeout"},
		{"fail/increment negative", `{"health_checks":{"active":{"increment":"-1s"}}}`, "health_checks.active.increment"},
		{"increment zero", `{"health_checks":{"active":{"increment":0}}}`, ""},
		{"fail/max_interval below default interval", `{"health_checks":{"active":{"max_interval":"4s"}}}`, "health_checks.active.max_interval"},
		{"fail/max_interval below interval", `{"health_checks":{"active":{"interval":"2m","max_interval":"1m"}}}`, "health_checks.active.max_interval"},
		{"interval above the default maximum", `{"health_checks":{"active":{"interval":"2m"}}}`, ""},
		{"fail/jitter above 100", `{"health_checks":{"active":{"jitter":101}}}`, "health_checks.active.jitter"},
		{"jitter zero", `{"health_checks":{"active":{"jitter":0}}}`, ""},
		{"fail/max_failures", `{"health_checks":{"active":{"max_failures":-2}}}`, "health_checks.active.max_failures"},
		{"max_failures never", `{"health_checks":{"active":{"max_failures":-1}}}`, ""},
		{"fail/readmit_after", `{"health_checks":{"active":{"readmit_after":-2}}}`, "health_checks.active.readmit_after"},
		{"readmit_after never", `{"health_checks":{"active":{"readmit_after":-1}}}`, ""},
		{"fail/port", `{"health_checks":{"active":{"port":65536}}}`, "health_checks.active.port"},
		{"fail/expect_body", `{"health_checks":{"active":{"expect_body":"("}}}`, "health_checks.active.expect_body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := new(Handler)
			if err := caddy.StrictUnmarshalJSON([]byte(tc.config), h); err != nil {
				t.Fatal(err)
			}
			err := h.Validate()
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.field != "" && err == nil:
				t.Error("accepted")
			case tc.field != "" && !strings.HasPrefix(err.Error(), tc.field+":"):
				t.Errorf("the error does not begin with %s: %v", tc.field, err)
			}
		})
	}
}
