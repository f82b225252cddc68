//go:build linux

package peer

import (
	"os"
	"syscall"
)

// HAProxy checks, observes traffic, and sends requests again that failed, but
// for those with POST.
var HAProxy = Peer{
	Name: "HAProxy, tuned", Note: "checks every second, observe layer7, redispatch, retry-on but for POST",
	program:   "haproxy",
	arguments: []string{"{{if .Alone}}-db{{else}}-Ws{{end}}", "-f", "config"},
	config: `global
	maxconn 9000
	nbthread {{.Threads}}
defaults
	mode http
	timeout connect 1s
	timeout client 60s
	timeout server 2s
	timeout http-keep-alive 60s
	retries 5
	option redispatch 1
	retry-on conn-failure empty-response junk-response response-timeout 500 502 503 504
frontend web
	bind {{.Listen}}{{if .HTTP2}} proto h2{{end}}
	default_backend backends
backend backends
	balance roundrobin
	http-request disable-l7-retry if METH_POST
	option httpchk GET /health
	http-reuse safe
	default-server check inter {{ms .Interval}} fall 1 rise 1 {{if .HealthPort}}port {{.HealthPort}} {{end}}observe layer7 error-limit 1 on-error mark-down
{{range $i, $u := .Upstreams}}	server s{{$i}} {{$u}}
{{end}}`,
	reload: func(r *Process, _ string) error {
		return r.cmd.Process.Signal(syscall.SIGUSR2)
	},
}

// NGINX judges by traffic alone.
var NGINX = Peer{
	Name: "NGINX, tuned", Note: "max_fails=1 fail_timeout=1s, proxy_next_upstream, also of 5xx",
	program:   "nginx",
	arguments: []string{"-p", "{{.Dir}}", "-c", "{{.Dir}}/config"},
	config: `daemon off;
{{if .Alone}}master_process off;
{{end}}pid nginx.pid;
error_log stderr crit;
{{if .Root}}user root;
{{end}}worker_processes {{.Threads}};
events { worker_connections 9000; }
http {
	access_log off;
	client_body_temp_path temp;
	proxy_temp_path temp;
	fastcgi_temp_path temp;
	uwsgi_temp_path temp;
	scgi_temp_path temp;
	keepalive_requests 1000000;
	upstream backends {
		{{if not .Alone}}zone backends 4m;{{end}}
{{range .Upstreams}}		server {{.}} max_fails=1 fail_timeout=1s;
{{end}}		keepalive 64;
		keepalive_requests 1000000;
	}
	server {
		listen {{.Listen}}{{if .HTTP2}} http2{{end}} backlog=4096;
		location / {
			proxy_pass http://backends;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_connect_timeout 1s;
			proxy_read_timeout 2s;
			proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 http_504;
		}
	}
}
`,
	reload: func(r *Process, _ string) error {
		return r.cmd.Process.Signal(syscall.SIGHUP)
	},
}

// Root reports whether workers may run as root, which a user namespace with
// one user has to make them.
func (Setup) Root() bool { return os.Geteuid() == 0 }
