package healthcheck

import (
	"encoding/json"
	"testing"
)

// Whatever is said about requests and responses has an effect, or is warned
// about.
func TestIdle(t *testing.T) {
	for _, tc := range []struct {
		option          string
		tcp, grpc, none bool
	}{
		{`"interval": 1`, false, false, false},
		{`"timeout": 1, "passes": 2, "fails": 2, "max_failures": 2`, false, false, false},
		{`"port": 80`, false, false, false},
		{`"upstream": "a:80"`, false, false, false},
		{`"headers": {"Host": ["a"]}`, true, false, true},
		{`"uri": "/"`, true, true, true},
		{`"uri": "/", "port": 80`, true, true, true},
		{`"path": "/"`, true, true, true},
		{`"method": "GET"`, true, true, true},
		{`"body": "x"`, true, true, true},
		{`"follow_redirects": true`, true, true, true},
		{`"max_size": 1`, true, true, true},
		{`"expect_status": 200`, true, true, true},
		{`"expect_body": "x"`, true, true, true},
	} {
		for protocol, want := range map[string]bool{
			ProtocolHTTP: false, ProtocolTCP: tc.tcp, ProtocolGRPC: tc.grpc, ProtocolNone: tc.none,
		} {
			var cfg Config
			if err := json.Unmarshal([]byte("{"+tc.option+"}"), &cfg); err != nil {
				t.Fatal(err)
			}
			cfg.Protocol = protocol
			if got := cfg.Idle(); got != want {
				t.Errorf("%s over %s: %t", tc.option, protocol, got)
			}
		}
	}
}

// Results for one service are none for another.
func TestIdentityHasTheService(t *testing.T) {
	one, other := Config{Protocol: ProtocolGRPC, Service: "one"}, Config{Protocol: ProtocolGRPC, Service: "other"}
	if one.Identity() == other.Identity() {
		t.Errorf("both are %s", one.Identity())
	}
}
