//go:build linux

package peer

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// Admin is the address of Caddy's admin endpoint.
const Admin = "127.0.0.1:2019"

// caddyfile is a server with one handler, without logs of requests.
const caddyfile = `{
	admin ` + Admin + `
	auto_https off
	log {
		level ERROR
	}
	servers {
		protocols h1{{if .HTTP2}} h2c{{end}}
	}
}
http://{{.Listen}} {
	HANDLER {{join .Upstreams " "}} {
		health_uri /health
		{{if .HealthPort}}health_port {{.HealthPort}}{{end}}
OPTIONS
	}
}
`

// tuned are the options that Caddy's proxy and ours share.
const tuned = `
		health_interval {{seconds .Interval}}
		health_timeout 1s
		fail_duration 10s
		max_fails 1
		unhealthy_status 5xx
		unhealthy_latency 1s
		lb_retry_match {
			method GET
		}
		lb_retry_match {
			method GET
			expression ` + "`{rp.status_code} in [500, 502, 503, 504]`" + `
		}
		transport http {
			dial_timeout 1s
			response_header_timeout 2s
		}`

func caddy(name, note, handler, options string) Peer {
	config := strings.Replace(caddyfile, "HANDLER", handler, 1)
	return Peer{
		Name: name, Note: note,
		arguments: []string{"run", "--config", "config", "--adapter", "caddyfile"},
		config:    strings.Replace(config, "OPTIONS", options, 1),
		reload:    load,
	}
}

// Ours with no option but a health URI.
var Ours = caddy("load_balance", "defaults and a health URI", "load_balance", "")

// OursPatient is Ours with checks that give up after a second.
var OursPatient = caddy("load_balance, health_timeout 1s", "defaults, a health URI and health_timeout 1s",
	"load_balance", "\t\thealth_timeout 1s")

// OursPlain is ours with checks of an interval.
var OursPlain = caddy("load_balance", "a health URI, health_interval 5s", "load_balance",
	"\t\thealth_interval {{seconds .Interval}}")

// StockPlain is Caddy's own proxy with the same checks.
var StockPlain = caddy("reverse_proxy", "a health URI, health_interval 5s", "reverse_proxy",
	"\t\thealth_interval {{seconds .Interval}}")

// OursTuned is ours with the options that the other peers have.
var OursTuned = caddy("load_balance, tuned", "checks every second without backing off, passive checks, retries of 5xx",
	"load_balance", tuned+`
		health_increment 0
		health_max_interval {{seconds .Interval}}
		health_max_failures never`)

// Stock is Caddy's own proxy.
var Stock = caddy("reverse_proxy, tuned", "checks every second, passive checks, retries, also of 5xx",
	"reverse_proxy", tuned+`
		lb_policy round_robin
		lb_retries 5`)

// load posts the configuration to the admin endpoint, with its permission to
// take an equal one anew.
func load(r *Process, file string) error {
	config, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+Admin+"/load", bytes.NewReader(config))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("reloading %s: status %d: %s", r.Name, resp.StatusCode, said)
	}
	return nil
}
