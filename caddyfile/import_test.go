package caddyfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Options from a snippet and from another file land in the result, and their
// arguments are replaced.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "checks"), "health_jitter {args[0]}\nhealth_headers {\n\tname x\n}\nhealth_max_failures never\n")
	directive, err := adapt(filepath.Join(dir, "Caddyfile"), `
(one) {
	upstream {args[0]} {
		max_requests {args[1]}
		{block}
	}
}
(wait) {
	start_wait 1s
}
:80 {
	@api path /api/*
	load_balance @api a {
		import one b:1-2 5
		name pool
		import checks 20
		import one c 6
		import wait
		to d
	}
}
`)
	if err != nil {
		t.Fatal(err)
	}
	var dials []string
	for _, up := range directive.Upstreams {
		dials = append(dials, up.Dial)
	}
	if got, want := strings.Join(dials, " "), "a:80 b:1 b:2 c:80 d:80"; got != want {
		t.Errorf("got upstreams %s, want %s", got, want)
	}
	if got := directive.Upstreams[3].MaxRequests; got != 6 {
		t.Errorf("got max_requests %d of c, want 6", got)
	}
	if directive.Name != "pool" || *directive.Active.Jitter != 20 || directive.Active.MaxFailures != -1 ||
		!slices.Equal(directive.Active.Headers["name"], []string{"x"}) || //nolint:staticcheck // as it is spelled
		*directive.StartWait != caddy.Duration(time.Second) {
		t.Errorf("an option is missing: %s", asJSON(t, directive))
	}
}

// An error in a snippet or in an imported file has its own file and line.
func TestImportErrors(t *testing.T) {
	const bad = "health_headers {\n\tx y\n}\n"
	for _, tt := range []struct{ name, imported, want string }{
		{"value", "health_jitter 200 # here\n", "health_jitter: must be a whole percentage from 0 to 100, not '200'"},
		{"missing", "name # here\n", "name: the argument is missing"},
		{"surplus", "name a b # here\n", "name: surplus argument 'b'"},
		{"block", "name a { # here\n}\n", "name: unexpected block"},
		{"in a block", "upstream x {\n\tmax_requests 0 # here\n}\n", "max_requests: must be"},
		{"unknown in a block", "upstream x {\n\tname x # here\n}\n", "upstream: unrecognized option name"},
		{"weight", "lb_policy first\nupstream x {\n\tweight 5 # here\n}\n", "weight: must stand beside"},
		{"slow start", "lb_policy first\nslow_start 5s # here\n", "slow_start: must stand beside"},
		{"policy's weight", "lb_policy smooth_round_robin 1 x # here\n", "a weight must be a whole number of zero or more, not 'x'"},
		{"twice", "start_wait 1s # here\n", "start_wait: given twice"},
		{"address twice", "upstream a { # here\n\tmax_requests 3\n}\n", "upstream: options of 'a:80' given twice"},
		{"below the interval", "health_max_interval 6s # here\n", "health_max_interval: must not be below health_interval, 7s, not '6s'"},
		{"caddy's, unknown", "nonsense # here\n", "unrecognized subdirective nonsense"},
		{"caddy's, address", "upstream ftp://x # here\n", "unsupported URL scheme ftp://"},
		{"caddy's, negative", "health_timeout -5s # here\n", "health_timeout: must not be negative"},
		{"caddy's, retries", "lb_retries -1 # here\n", "lb_retries: must not be negative"},
		{"caddy's, port", "health_port 0 # here\n", "health_port: must be from 1 to 65535"},
	} {
		site := ":80 {\n\tload_balance {\n\t\tupstream a {\n\t\t\tmax_requests 2\n\t\t}\n\t\tstart_wait 1s\n\t\thealth_interval 7s\n\t\timport extra\n\t}\n}\n"
		check := func(t *testing.T, err error, file, text string) {
			t.Helper()
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range []string{tt.want, ", at " + here(t, file, text) + " import chain ['"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got error %q, want %q in it", err, part)
				}
			}
		}
		t.Run(tt.name+"/snippet", func(t *testing.T) {
			text := "(extra) {\n" + bad + tt.imported + "}\n" + site
			_, err := adapt("Caddyfile", text)
			check(t, err, "Caddyfile", text)
		})
		t.Run(tt.name+"/file", func(t *testing.T) {
			dir := t.TempDir()
			extra := filepath.Join(dir, "extra")
			write(t, extra, bad+tt.imported)
			_, err := adapt(filepath.Join(dir, "Caddyfile"), site)
			check(t, err, extra, bad+tt.imported)
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
