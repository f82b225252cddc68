package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	weakrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Tests of what configs are refused, with which words, and of what the
// adapter makes of those that are not.

// refuse loads a config that has to be refused, and returns Caddy's words.
func (c *caddyProcess) refuse(t testing.TB, kind, config string) string {
	t.Helper()
	resp, body, err := c.request(http.MethodPost, "/load", http.Header{"Content-Type": {kind}}, config)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, %v: %q", resp.StatusCode, err, body)
	}
	return answer.Error
}

// A steady is a Caddy whose rows do not change by themselves.
type steady struct {
	*caddyProcess
	url  string
	w    *witness
	rows string
}

func startSteady(t testing.TB) *steady {
	t.Helper()
	s := &steady{w: newWitness(t, nil)}
	addr := freeAddr(t)
	s.url = "http://" + addr
	s.caddyProcess = launch(t, site(addr, to(s.w.addr, "name steady", "health_interval 1h", "health_jitter 0")))
	s.waitStatus(t, "up", s.w.addr)
	get(t, s.url)
	s.rows = s.shown(t)
	return s
}

func (s *steady) shown(t testing.TB) string {
	t.Helper()
	_, body := s.ask(t, http.MethodGet, "/load_balance/upstreams", nil)
	return body
}

// check checks that the running config is as it was.
func (s *steady) check(t testing.TB) {
	t.Helper()
	if rows := s.shown(t); rows != s.rows {
		t.Errorf("rows are %s, were %s", rows, s.rows)
	}
	if n := len(s.w.probes()); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}
}

// serves checks that it serves, and takes that for the new state.
func (s *steady) serves(t testing.TB) {
	t.Helper()
	if status, body := get(t, s.url); status != 200 || body != s.w.addr {
		t.Errorf("got status %d, %q", status, body)
	}
	s.rows = s.shown(t)
}

// Every kind of bad value in a Caddyfile is refused with the option, the file
// and the line, and the running config goes on.
func TestBadCaddyfile_c4481_c4050_c6272(t *testing.T) {
	t.Parallel()
	bad := map[string][]string{
		"name":                 {``, `""`, `a b`, "a\nname b # here"},
		"start_wait":           {``, `-1s`, `-1ns`, `5`, `soon`, `99999999h`, `9223372036854775808ns`, `1s 2s`, "1s\nstart_wait 1s # here", `1s {`},
		"when_all_down":        {``, `502`, `TRY_ALL`, `""`, `503 try_all`, "503\nwhen_all_down 503 # here"},
		"health_protocol":      {``, `udp`, `HTTP`, `https`, `grpc a b`, `tcp http`, "tcp\nhealth_protocol tcp # here"},
		"health_increment":     {``, `-5s`, `5`, `many`, `99999999h`, `1s 2s`, "1s\nhealth_increment 1s # here"},
		"health_max_interval":  {``, `0`, `0s`, `-60s`, `60`, `never`, `99999999h`, `4s`, "29s # here\nhealth_interval 30s", `1m 2m`, "1m\nhealth_max_interval 1m # here"},
		"health_jitter":        {``, `-1`, `-1%`, `101`, `101%`, `9.5`, `half`, `99999999999999999999`, `1 2`, "0\nhealth_jitter 0 # here"},
		"health_max_failures":  {``, `0`, `-1`, `1.5`, `ten`, `Never`, `99999999999999999999`, `1 2`, "1\nhealth_max_failures 1 # here"},
		"health_readmit_after": {``, `0`, `0s`, `-5m`, `5`, `Never`, `99999999h`, `1s 2s`, "1s\nhealth_readmit_after 1s # here"},
		"upstream":             {``, `b c`, "b {\nnonsense 1 # here\n}", "b {\nmax_requests 1\n}\nupstream b { # here\nmax_requests 1\n}"},
		"max_requests":         {``, `0`, `-1`, `x`, `never`, `99999999999999999999`, `1 2`, "1\nmax_requests 1 # here"},
		"weight":               {``, `0`, `-1`, `257`, `1.5`, `x`, `99999999999999999999`, `1 2`, `1`, "1\nweight 1 # here"}, // beside `first`
		"backup":               {`yes`, `{`, "\nbackup # here"},
		"slow_start":           {``, `-1s`, `5`, `never`, `99999999h`, `1s 2s`, `1s`, `0`, "1s\nslow_start 1s # here"}, // beside `first`
		"lb_retries":           {`-1`, `x`, ``},
		"health_interval":      {`-5s`, `x`, ``},
		"health_timeout":       {`-5s`, `x`, ``},
		"health_port":          {`0`, `-1`, `65536`, `x`, ``},
		// of the future, or of nobody
		"nonsense":    {``, `1`, "{\nnonsense\n}"},
		"HEALTH_URI":  {`/`},
		"health_grpc": {`service`},
	}
	// these are Caddy's own words
	silent := map[string]bool{"health_interval x": true, "health_timeout x": true, "health_port x": true}

	s := startSteady(t)
	upstream := newWitness(t, nil)
	for option, values := range bad {
		for _, value := range values {
			line := strings.TrimSuffix(option+" "+value, " ")
			if option == "max_requests" || option == "weight" || option == "backup" {
				line = "upstream " + upstream.addr + " {\n" + line + "\n}"
			}
			t.Run(strings.Join(strings.Fields(line), " "), func(t *testing.T) {
				text := s.caddyfile(site(freeAddr(t), to(upstream.addr, line, "lb_policy first")))
				want := option
				if silent[line] {
					want = value
				}
				position := fmt.Sprintf("at Caddyfile:%d", markedLine(text, option))
				if words := s.refuse(t, "text/caddyfile", text); !strings.Contains(words, want) || !strings.HasSuffix(words, position) {
					t.Errorf("got %q, want %q and %q in it", words, want, position)
				}
				s.check(t)
			})
		}
	}
	s.serves(t)
	if n := len(upstream.sights(nil)); n > 0 {
		t.Errorf("%d checks of upstreams that were never configured", n)
	}
}

// markedLine returns the number of the line with the comment `# here`, or of
// the first one that begins with the option.
func markedLine(text, option string) int {
	before, _, marked := strings.Cut(text, "# here")
	if !marked {
		before, _, _ = strings.Cut(text, "\n"+option)
		before += "\n"
	}
	return strings.Count(before, "\n") + 1
}

// caddy adapt refuses as well, and names the file, imported or not.
func TestBadCaddyfileAdapt(t *testing.T) {
	t.Parallel()
	c := newCaddy(t)
	dir := t.TempDir()
	imported, path := filepath.Join(dir, "pool.caddy"), filepath.Join(dir, "Caddyfile")
	for _, tt := range []struct{ lines, position string }{
		{"health_jitter 200%", path + ":4"},
		{"import pool.caddy", imported + ":2"},
	} {
		text := ":80 {\n\tload_balance {\n\tto localhost\n\t" + tt.lines + "\n\t}\n}\n"
		for name, text := range map[string]string{path: text, imported: "name pool\nhealth_jitter 200%\n"} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := c.command(t, "adapt", "--config", path).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "health_jitter: ") || !strings.Contains(string(out), "at "+tt.position) {
			t.Errorf("%s: %v: %s", tt.lines, err, out)
		}
	}
}

// Every kind of bad value in JSON is refused with the name of its field, and
// the running config goes on.
func TestBadJSON(t *testing.T) {
	t.Parallel()
	s := startSteady(t)
	upstream := newWitness(t, nil)
	addr := freeAddr(t)
	for _, tt := range []struct{ config, want string }{
		{`"start_wait": -1`, "start_wait: "},
		{`"when_all_down": "502"`, "when_all_down: "},
		{`"load_balancing": {"retries": -1}`, "load_balancing.retries: "},
		{`"upstreams": [{"dial": "a:80"}, {"dial": "b:80", "max_requests": -1}]`, "upstreams[1].max_requests: "},
		{`"upstreams": [{"dial": "a:80"}, {"dial": "b:80", "weight": -1}]`, "upstreams[1].weight: "},
		{`"upstreams": [{"dial": "a:80", "weight": 257}]`, "upstreams[0].weight: "},
		{`"upstreams": [{"dial": "a:80", "weight": 2}, {"dial": "a:80"}]`, "upstreams[1].dial: "},
		{`"upstreams": [{"dial": "a:80", "weight": 2}], "load_balancing": {"selection_policy": {"policy": "least_conn"}}`, "upstreams[0].weight: "},
		{`"upstreams": [{"dial": "a:80", "weight": 2}], "load_balancing": {"selection_policy": {"policy": "smooth_round_robin", "weights": [2]}}`, "upstreams[0].weight: "},
		{`"slow_start": -1`, "slow_start: "},
		{`"slow_start": "5s", "load_balancing": {"selection_policy": {"policy": "least_conn"}}`, "slow_start: "},
		{`"load_balancing": {"selection_policy": {"policy": "smooth_round_robin", "weights": [1, -2]}}`, "weights[1]: "},
		{`"load_balancing": {"selection_policy": {"policy": "smooth_round_robin", "weights": [0, 0]}}`, "weights: "},
		{`"load_balancing": {"selection_policy": {"policy": "smooth_round_robin", "nonsense": 1}}`, `"nonsense"`},
		{`"health_checks": {"active": {"protocol": "udp"}}`, "health_checks.active.protocol: "},
		{`"health_checks": {"active": {"protocol": "udp"}}`, "health_checks.active.protocol: "},
		{`"health_checks": {"active": {"interval": -1}}`, "health_checks.active.interval: "},
		{`"health_checks": {"active": {"interval": "-5s"}}`, "health_checks.active.interval: "},
		{`"health_checks": {"active": {"timeout": -1}}`, "health_checks.active.timeout: "},
		{`"health_checks": {"active": {"increment": -1}}`, "health_checks.active.increment: "},
		{`"health_checks": {"active": {"max_interval": -1}}`, "health_checks.active.max_interval: "},
		{`"health_checks": {"active": {"max_interval": "4999ms"}}`, "health_checks.active.max_interval: "},
		{`"health_checks": {"active": {"interval": "1h", "max_interval": "1m"}}`, "health_checks.active.max_interval: "},
		{`"health_checks": {"active": {"jitter": -1}}`, "health_checks.active.jitter: "},
		{`"health_checks": {"active": {"jitter": 101}}`, "health_checks.active.jitter: "},
		{`"health_checks": {"active": {"max_failures": -2}}`, "health_checks.active.max_failures: "},
		{`"health_checks": {"active": {"readmit_after": -2}}`, "health_checks.active.readmit_after: "},
		{`"health_checks": {"active": {"readmit_after": "-5m"}}`, "health_checks.active.readmit_after: "},
		{`"health_checks": {"active": {"port": -1}}`, "health_checks.active.port: "},
		{`"health_checks": {"active": {"port": 65536}}`, "health_checks.active.port: "},
		{`"health_checks": {"active": {"max_size": -1}}`, "health_checks.active.max_size: "},
		{`"health_checks": {"active": {"expect_body": "("}}`, "health_checks.active.expect_body: "},
		{`"health_checks": {"active": {"uri": "%zz"}}`, "health_checks.active.uri: "},

		{`"nonsense": 1`, `"nonsense"`},
		{`"health_checks": {"active": {"nonsense": 1}}`, `"nonsense"`},
		{`"health_checks": {"nonsense": {}}`, `"nonsense"`},
		{`"load_balancing": {"nonsense": 1}`, `"nonsense"`},

		{`"upstreams": [{"dial": "a:80", "max_requests": "5"}]`, "max_requests"},
		{`"upstreams": [{"dial": "a:80", "max_requests": 1e99}]`, "max_requests"},
		{`"upstreams": {"dial": "a:80"}`, "upstreams"},
		{`"upstreams": [{"dial": "a:80", "weight": 1.5}]`, "weight"},
		{`"upstreams": [{"dial": "a:80", "backup": "yes"}]`, "backup"},
		{`"load_balancing": {"retries": "3"}`, "retries"},
		{`"load_balancing": {"retries": 1.5}`, "retries"},
		{`"health_checks": {"active": {"jitter": "10%"}}`, "jitter"},
		{`"health_checks": {"active": {"max_failures": "never"}}`, "max_failures"},
		{`"health_checks": {"active": {"max_failures": 99999999999999999999}}`, "max_failures"},
		{`"health_checks": {"active": {"readmit_after": "never"}}`, "never"},
		{`"start_wait": "soon"`, "soon"},
	} {
		t.Run(tt.config, func(t *testing.T) {
			handler := `{"handler": "load_balance", ` + tt.config + `}`
			if !strings.Contains(tt.config, "upstreams") {
				handler = fmt.Sprintf(`{"handler": "load_balance", "upstreams": [{"dial": %q}], %s}`, upstream.addr, tt.config)
			}
			words := s.refuse(t, "application/json", s.handlersConfig(t, map[string]string{addr: handler}))
			if !strings.Contains(words, tt.want) {
				t.Errorf("got %q, want %q in it", words, tt.want)
			}
			s.check(t)
		})
	}
	s.serves(t)
	if n := len(upstream.sights(nil)); n > 0 {
		t.Errorf("%d checks of upstreams that were never configured", n)
	}
}

// everyOption is a Caddyfile with every option of the directive. What is in
// braces of the form <name> is to be filled in.
const everyOption = `http://<site> {
	load_balance <one> {
		name everything
		upstream <two> {
			weight 3
			max_requests 50
			backup
		}
		to <three>
		slow_start 20s
		start_wait 3s
		when_all_down try_all

		health_protocol http
		health_increment 2s
		health_max_interval 20h
		health_jitter 20%
		health_max_failures 4
		health_readmit_after never

		health_uri /health?deep=1
		health_path /unused
		health_port <port>
		health_interval 10h
		health_passes 2
		health_fails 3
		health_timeout 4s
		health_status 2xx
		health_body ^well
		health_method POST
		health_request_body {"ping":{}}
		health_follow_redirects
		health_headers {
			Host app.internal
			X-Two a b
		}

		fail_duration 10s
		max_fails 5
		unhealthy_status 5xx 429
		unhealthy_latency 9s
		unhealthy_request_count 70

		lb_policy smooth_round_robin
		lb_retries 2
		lb_try_duration 1s
		lb_try_interval 100ms
		lb_retry_match {
			method GET PUT
		}

		flush_interval -1
		request_buffers 4KiB
		response_buffers 8KiB
		stream_timeout 1h
		stream_close_delay 5s
		stream_buffer_size 16KiB
		verbose_logs
		proxy_status_name edge
		trusted_proxies 192.0.2.0/24
		header_up X-Up {upstream_hostport}
		header_down -X-Down
		method GET
		rewrite /app{uri}
		@gone status 410
		replace_status @gone 404
		handle_response @gone {
			respond gone
		}
		transport http {
			dial_timeout 2s
			keepalive 10s
		}
	}
}
`

// everyOptionJSON is what the adapter makes of the directive.
const everyOptionJSON = `{
	"flush_interval": -1,
	"handle_response": [
		{"match": {"status_code": [410]}, "status_code": 404},
		{"match": {"status_code": [410]}, "routes": [{"handle": [{"body": "gone", "handler": "static_response"}]}]}
	],
	"handler": "load_balance",
	"headers": {
		"request": {"set": {"X-Up": ["{http.reverse_proxy.upstream.hostport}"]}},
		"response": {"delete": ["X-Down"]}
	},
	"health_checks": {
		"active": {
			"body": "{\"ping\":{}}",
			"expect_body": "^well",
			"expect_status": 2,
			"fails": 3,
			"follow_redirects": true,
			"headers": {"Host": ["app.internal"], "X-Two": ["a", "b"]},
			"increment": 2000000000,
			"interval": 36000000000000,
			"jitter": 20,
			"max_failures": 4,
			"max_interval": 72000000000000,
			"method": "POST",
			"passes": 2,
			"path": "/unused",
			"port": <port>,
			"protocol": "http",
			"readmit_after": -1,
			"timeout": 4000000000,
			"uri": "/health?deep=1"
		},
		"passive": {
			"fail_duration": 10000000000,
			"max_fails": 5,
			"unhealthy_latency": 9000000000,
			"unhealthy_request_count": 70,
			"unhealthy_status": [5, 429]
		}
	},
	"load_balancing": {
		"retries": 2,
		"retry_match": [{"method": ["GET", "PUT"]}],
		"selection_policy": {"policy": "smooth_round_robin"},
		"try_duration": 1000000000,
		"try_interval": 100000000
	},
	"name": "everything",
	"proxy_status_name": "edge",
	"request_buffers": 4096,
	"response_buffers": 8192,
	"rewrite": {"method": "GET", "uri": "/app{http.request.uri}"},
	"slow_start": 20000000000,
	"start_wait": 3000000000,
	"stream_buffer_size": 16384,
	"stream_close_delay": 5000000000,
	"stream_timeout": 3600000000000,
	"transport": {"dial_timeout": 2000000000, "keep_alive": {"idle_timeout": 10000000000}, "protocol": "http"},
	"trusted_proxies": ["192.0.2.0/24"],
	"upstreams": [{"dial": "<one>"}, {"backup": true, "dial": "<two>", "max_requests": 50, "weight": 3}, {"dial": "<three>"}],
	"verbose_logs": true,
	"when_all_down": "try_all"
}`

// adapt returns what `caddy adapt` makes of a Caddyfile.
func (c *caddyProcess) adapt(t testing.TB, text string) []byte {
	t.Helper()
	path := filepath.Join(c.dir, "adapt.caddy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := c.command(t, "adapt", "--adapter", "caddyfile", "--config", path)
	var words bytes.Buffer
	cmd.Stderr = &words
	config, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, words.String())
	}
	return bytes.TrimSpace(config)
}

// adapted returns what a running Caddy makes of a Caddyfile.
func (c *caddyProcess) adapted(t testing.TB, text string) []byte {
	t.Helper()
	resp, body, err := c.request(http.MethodPost, "/adapt", http.Header{"Content-Type": {"text/caddyfile"}}, text)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return answer.Result
}

// handlerIn returns the text of the only load_balance handler of a config.
func handlerIn(t testing.TB, config []byte) string {
	t.Helper()
	text := string(config)
	for range 10 {
		start := strings.Index(text, `"handle":[`)
		if start < 0 {
			break
		}
		text = text[start+len(`"handle":[`):]
		var handler json.RawMessage
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&handler); err != nil {
			t.Fatal(err)
		}
		if name := new(struct{ Handler string }); json.Unmarshal(handler, name) == nil && name.Handler == "load_balance" {
			return string(handler)
		}
	}
	t.Fatalf("no load_balance in %s", config)
	return ""
}

// Every option arrives in the adapted JSON, and nothing else does: defaults
// are never written.
func TestAdapterWritesWhatIsGiven(t *testing.T) {
	t.Parallel()
	c := launch(t, "")
	fill := strings.NewReplacer("<site>", "localhost:80", "<one>", "a:80", "<two>", "b:1", "<three>", "unix//c", "<port>", "8080").Replace
	for _, tt := range []struct{ name, directive, want string }{
		{"nothing", "load_balance", `{"handler": "load_balance"}`},
		{"an upstream", "load_balance a", `{"handler": "load_balance", "upstreams": [{"dial": "a:80"}]}`},
		{"an empty block", "load_balance a {\n}", `{"handler": "load_balance", "upstreams": [{"dial": "a:80"}]}`},
		{"an upstream block", "load_balance {\nupstream a {\n}\n}", `{"handler": "load_balance", "upstreams": [{"dial": "a:80"}]}`},
		{
			"zeros", "load_balance a {\nlb_retries 0\nslow_start 0\nstart_wait 0\nhealth_increment 0\nhealth_jitter 0\n}",
			`{"handler": "load_balance", "health_checks": {"active": {"increment": 0, "jitter": 0}}, "load_balancing": {"retries": 0}, "start_wait": 0, "upstreams": [{"dial": "a:80"}]}`,
		},
		{
			"never", "load_balance a {\nhealth_max_failures never\nhealth_readmit_after never\n}",
			`{"handler": "load_balance", "health_checks": {"active": {"max_failures": -1, "readmit_after": -1}}, "upstreams": [{"dial": "a:80"}]}`,
		},
		{
			"default values", "load_balance a {\nstart_wait 5s\nwhen_all_down 503\nhealth_jitter 10%\nhealth_max_failures 10\nhealth_interval 5s\n}",
			`{"handler": "load_balance", "health_checks": {"active": {"interval": 5000000000, "jitter": 10, "max_failures": 10}}, "start_wait": 5000000000, "upstreams": [{"dial": "a:80"}], "when_all_down": "503"}`,
		},
		{
			"policies", "load_balance a {\nlb_policy header X-User {\nfallback smooth_round_robin 3 1 0\n}\n}",
			`{"handler": "load_balance", "load_balancing": {"selection_policy": {"fallback": {"policy": "smooth_round_robin", "weights": [3, 1, 0]}, "field": "X-User", "policy": "header"}}, "upstreams": [{"dial": "a:80"}]}`,
		},
		{
			"what excludes other options", "load_balance {\ndynamic multi {\na x 80\nsrv y\n}\nhealth_upstream b:1\n}",
			`{"dynamic_upstreams": {"source": "multi", "sources": [{"name": "x", "port": "80", "source": "a"}, {"name": "y", "source": "srv"}]}, "handler": "load_balance", "health_checks": {"active": {"upstream": "b:1"}}}`,
		},
		{"every option", fill(everyOption), fill(everyOptionJSON)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.directive
			if strings.HasPrefix(text, "load_balance") {
				text = ":80 {\n" + text + "\n}\n"
			}
			var want bytes.Buffer
			if err := json.Compact(&want, []byte(tt.want)); err != nil {
				t.Fatal(err)
			}
			if got := handlerIn(t, c.adapted(t, text)); got != want.String() {
				t.Errorf("got  %s\nwant %s", got, want.String())
			}
		})
	}
}

// The options may stand in any order, blocks in the middle.
func TestAdapterAnyOrder_c4481_c4050_c6272(t *testing.T) {
	t.Parallel()
	c := launch(t, "")
	text := strings.NewReplacer("<site>", "localhost:80", "<one>", "a:80", "<two>", "b:1", "<three>", "c:1", "<port>", "8080").Replace(everyOption)
	_, text, _ = strings.Cut(text, "\tload_balance a:80 {\n")
	text, _, _ = strings.Cut(text, "\n\t}\n")
	var options []string // each with its block
	for line := range strings.Lines(text + "\n") {
		if strings.HasPrefix(line, "\t\t\t") || strings.HasPrefix(line, "\t\t}") {
			options[len(options)-1] += line
		} else if line != "\n" {
			options = append(options, line)
		}
	}
	inOrder := func(option string) bool { // of lists, the order matters
		return strings.HasPrefix(option, "\t\tto ") || strings.HasPrefix(option, "\t\tupstream ") || strings.Contains(option, "@gone")
	}
	adapted := func(options []string) string {
		t.Helper()
		return handlerIn(t, c.adapted(t, ":80 {\n\tload_balance a:80 {\n"+strings.Join(options, "")+"\t}\n}\n"))
	}
	want := adapted(options)
	for seed := range uint64(20) {
		shuffled := slices.Clone(options)
		weakrand.New(weakrand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		next := 0
		for i, option := range shuffled {
			if inOrder(option) {
				for !inOrder(options[next]) {
					next++
				}
				shuffled[i] = options[next]
				next++
			}
		}
		if got := adapted(shuffled); got != want {
			t.Errorf("got %s\nwant %s\nfor %s", got, want, strings.Join(shuffled, ""))
		}
	}
}

// A Caddyfile and the JSON that it adapts to behave the same: same rows, same
// checks, same requests.
func TestAdaptedConfigBehavesTheSame_din_caddy_plugins(t *testing.T) {
	t.Parallel()
	run := func(adapted bool) (rows []object, seen [][]sight) {
		var well [3]*witness
		for i := range well {
			well[i] = newWitness(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Host != "app.internal" {
					w.WriteHeader(http.StatusGone)
					return
				}
				_, _ = io.WriteString(w, "well enough")
			})
		}
		addr := freeAddr(t)
		_, port, _ := net.SplitHostPort(well[2].addr)
		text := strings.NewReplacer("<site>", addr, "<one>", well[0].addr, "<two>", well[1].addr, "<three>", well[2].addr, "<port>", port).Replace(everyOption)
		c := newCaddy(t)
		text = c.caddyfile(text)
		path := filepath.Join(c.dir, "caddy.conf")
		args := []string{"run", "--config", path}
		if adapted {
			text = string(c.adapt(t, text))
		} else {
			args = append(args, "--adapter", "caddyfile")
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.start(t, args...)
		c.waitStatus(t, "up", well[0].addr, well[1].addr, well[2].addr)
		if resp, body := getWith(t, "http://"+addr+"/page?x=y", http.Header{}); resp.StatusCode != 404 {
			t.Errorf("got status %d, %q", resp.StatusCode, body)
		}
		c.waitIdle(t)
		name := func(text string) string {
			for i, w := range well {
				text = strings.ReplaceAll(text, w.addr, fmt.Sprintf("upstream %d", i))
			}
			return text
		}
		for _, row := range c.list(t, "") {
			row["address"] = name(row["address"].(string))
			row["since"], row["next_check"] = nil, nil
			check := row["last_check"].(object)
			check["time"], check["duration_ms"] = nil, nil
			rows = append(rows, row)
		}
		for _, w := range well {
			var list []sight
			for _, s := range w.sights(func(s sight) bool { return s.host == "app.internal" }) {
				list = append(list, sight{method: s.method, uri: s.uri, host: s.host, body: s.body, header: s.header})
			}
			seen = append(seen, list)
		}
		return rows, seen
	}
	rows, seen := run(false)
	rowsOfJSON, seenOfJSON := run(true)
	if !reflect.DeepEqual(rows, rowsOfJSON) {
		t.Errorf("Caddyfile: %v\nJSON: %v", rows, rowsOfJSON)
	}
	if !reflect.DeepEqual(seen, seenOfJSON) {
		t.Errorf("Caddyfile: %v\nJSON: %v", seen, seenOfJSON)
	}
	checks := slices.Concat(seen...)
	if len(checks) != 3 { // all at the health port
		t.Fatalf("%d checks, want 3", len(checks))
	}
	if s := checks[0]; s.method != "POST" || s.uri != "/health?deep=1" || s.body != `{"ping":{}}` || !slices.Equal(s.header["X-Two"], []string{"a", "b"}) {
		t.Errorf("the check was %+v", s)
	}
}
