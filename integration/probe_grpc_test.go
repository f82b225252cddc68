package integration

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// Tests of checks over gRPC.

const overGRPC = brisk + "health_protocol grpc\n"

// A grpcBackend is a gRPC server with the official health service.
type grpcBackend struct {
	*grpchealth.Server
	addr string // to dial, as a Caddyfile has it

	mu   sync.Mutex
	seen []call
}

// A call is a check as a gRPC backend saw it.
type call struct {
	service string
	header  metadata.MD
	tls     credentials.TLSInfo
	from    net.Addr
}

// newGRPC starts a gRPC backend on a listener. Checks are answered by the
// health service, or by answer if it is not nil.
func newGRPC(t testing.TB, ln net.Listener, answer func(context.Context) error, options ...grpc.ServerOption) *grpcBackend {
	t.Helper()
	b := &grpcBackend{Server: grpchealth.NewServer(), addr: ln.Addr().String()}
	if ln.Addr().Network() == "unix" {
		b.addr = "unix/" + b.addr
	}
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			b.see(ctx, req.(*healthpb.HealthCheckRequest))
			if answer != nil {
				if err := answer(ctx); err != nil {
					return nil, err
				}
			}
			return handle(ctx, req)
		}))...)
	healthpb.RegisterHealthServer(server, b.Server)
	serveGRPC(t, server, ln)
	return b
}

func serveGRPC(t testing.TB, server *grpc.Server, ln net.Listener) {
	t.Helper()
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
}

func (b *grpcBackend) see(ctx context.Context, req *healthpb.HealthCheckRequest) {
	c := call{service: req.GetService()}
	c.header, _ = metadata.FromIncomingContext(ctx)
	if from, ok := peer.FromContext(ctx); ok {
		c.from = from.Addr
		c.tls, _ = from.AuthInfo.(credentials.TLSInfo)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, c)
}

func (b *grpcBackend) calls() []call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

// call returns the first check that the backend sees.
func (b *grpcBackend) call(t testing.TB) call {
	t.Helper()
	eventually(t, b.addr+" is checked", func() bool { return len(b.calls()) > 0 })
	return b.calls()[0]
}

// Whatever a backend answers, or does not, the check has a result, with a
// reason that says what is wrong. Only SERVING passes.
func TestProbeGRPC(t *testing.T) {
	t.Parallel()
	serving := func(ln net.Listener) string { return newGRPC(t, ln, nil).addr }
	answering := func(answer func(context.Context) error) string { return newGRPC(t, listenStable(t), answer).addr }
	services := newGRPC(t, listenStable(t), nil)
	services.SetServingStatus("well", healthpb.HealthCheckResponse_SERVING)
	services.SetServingStatus("ill", healthpb.HealthCheckResponse_NOT_SERVING)
	services.SetServingStatus("unsure", healthpb.HealthCheckResponse_UNKNOWN)
	ill := newGRPC(t, listenStable(t), nil)
	ill.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	bareListener := listenStable(t)
	serveGRPC(t, grpc.NewServer(), bareListener)
	wordyListener := listenStable(t)
	wordy := grpc.NewServer(grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		resp := &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
		field := binary.AppendUvarint(binary.AppendUvarint(nil, 99<<3|2), 1<<20) // number 99, that many bytes
		resp.ProtoReflect().SetUnknown(append(field, make([]byte, 1<<20)...))
		return resp, nil
	}))
	healthpb.RegisterHealthServer(wordy, grpchealth.NewServer())
	serveGRPC(t, wordy, wordyListener)
	silent := newRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	rude := newRaw(t, func(conn net.Conn) {
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	})
	banner := newRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6 and whatever comes after it\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	oldHTTP := newRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}

	tests := []struct {
		name, upstream, service, reason string
		answered                        bool
	}{
		{"serving", serving(listenStable(t)), "", "", true},
		{"unix socket", serving(listenUnix(t)), "", "", true},
		{"service is well", services.addr, "well", "", true},
		{"not serving", ill.addr, "", "not serving", true},
		{"service is ill", services.addr, "ill", "not serving", true},
		{"service is unsure", services.addr, "unsure", "unknown health", true},
		{"service unknown", services.addr, "other", "unknown service", true},
		{"no health service", bareListener.Addr().String(), "", "unimplemented", true},
		{"refused", answering(func(context.Context) error { return status.Error(codes.PermissionDenied, "not you") }), "", "status PermissionDenied", true},
		{"unavailable", answering(func(context.Context) error { return status.Error(codes.Unavailable, "later") }), "", "status Unavailable", true},
		{"huge header", answering(func(ctx context.Context) error {
			return grpc.SetHeader(ctx, metadata.Pairs("huge", strings.Repeat("x", 1<<20)))
		}), "", "error", false},
		{"huge answer", wordyListener.Addr().String(), "", "status ResourceExhausted", true},
		{"hangs", answering(hang), "", "timeout", false},
		{"hangs after the header", answering(func(ctx context.Context) error {
			if err := grpc.SendHeader(ctx, nil); err != nil {
				return err
			}
			return hang(ctx)
		}), "", "timeout", false},
		{"silent", silent.addr, "", "timeout", false},
		{"closes", rude.addr, "", "connection closed", false},
		{"port closed", refusedAddr(t), "", "connection refused", false},
		{"no such socket", "unix//nowhere/socket", "", "no such socket", false},
		{"no HTTP", banner.addr, "", "not grpc", false},
		{"HTTP/1", oldHTTP.addr, "", "not grpc", false},
		{"HTTP/2", newWitness(t, nil).addr, "", "not grpc", true},
		{"HTTP/2 with 404", newWitness(t, answer(404)).addr, "", "not grpc", true},
		{"HTTP/2 with 503", newWitness(t, answer(503)).addr, "", "not grpc", true},
	}
	var sites strings.Builder
	for _, tt := range tests {
		sites.WriteString(site(freeAddr(t), to(tt.upstream, fmt.Sprintf("name %q", tt.name), "health_timeout 1s", "health_protocol grpc "+tt.service)))
	}
	c := launch(t, sites.String())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			row := c.waitRow(t, tt.name)
			want := map[bool]string{true: "up", false: "down"}[tt.reason == ""]
			if row.Status != want || row.Reason != tt.reason || row.LastCheck.OK != (tt.reason == "") || row.LastCheck.StatusCode != 0 {
				t.Errorf("got %s (%s, %+v), want %s (%s)", row.Status, row.Reason, row.LastCheck, want, tt.reason)
			}

			cfg := healthcheck.Config{Protocol: healthcheck.ProtocolGRPC, Service: tt.service}
			prober, err := healthcheck.NewProber(cfg, http.DefaultTransport)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			report := prober.Probe(tt.upstream)(ctx)
			if report.OK != (tt.reason == "") || report.Reason != tt.reason || report.Answered != tt.answered || report.TimedOut() != (tt.reason == "timeout") {
				t.Errorf("got %+v, want %q, answered %t", report, tt.reason, tt.answered)
			}
			if tt.reason == "error" && report.Detail == "" {
				t.Error("nothing says what is wrong")
			}
		})
	}
}

// A backend that changes its mind leaves the rotation and comes back.
func TestProbeGRPCChanges(t *testing.T) {
	t.Parallel()
	b := newGRPC(t, listenStable(t), nil)
	c := launch(t, site(freeAddr(t), to("h2c://"+b.addr, overGRPC, "health_increment 0", "health_max_failures never")))
	c.waitStatus(t, "up", b.addr)
	for range 2 {
		b.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		c.waitStatus(t, "down", b.addr)
		b.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		c.waitStatus(t, "up", b.addr)
	}
	connections := make(map[string]bool)
	for _, call := range b.calls() {
		connections[call.from.String()] = true
	}
	if n := len(b.calls()); len(connections) != n {
		t.Errorf("%d checks over %d connections", n, len(connections))
	}
}

// A check over gRPC has the configured headers as metadata, says what it is,
// and has nothing else with it.
func TestProbeGRPCMetadata(t *testing.T) {
	t.Parallel()
	plain, dressed := newGRPC(t, listenStable(t), nil), newGRPC(t, listenStable(t), nil)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(plain.addr, overGRPC, "header_up X-Secret 1"))+
		site(freeAddr(t), to(dressed.addr, overGRPC, "health_headers {\nHost app.internal\nUser-Agent monitor/1\nX-Two a b\nX-Meant {http.reverse_proxy.active.target_upstream}\n}")))
	c.waitStatus(t, "up", plain.addr, dressed.addr)
	getWith(t, "http://"+addr, http.Header{"Cookie": {"session=1"}, "User-Agent": {"a client"}})

	for _, call := range plain.calls() {
		for name := range call.header {
			if !slices.Contains([]string{":authority", "content-type", "user-agent", "grpc-accept-encoding"}, name) {
				t.Errorf("a check has %s: %v", name, call.header)
			}
		}
		if agent := call.header["user-agent"]; len(agent) != 1 || !strings.HasPrefix(agent[0], healthcheck.UserAgent) {
			t.Errorf("the check calls itself %q", agent)
		}
		if authority := call.header[":authority"]; !slices.Equal(authority, []string{plain.addr}) || call.service != "" {
			t.Errorf("the check is for %q of %q", call.service, authority)
		}
	}
	got := dressed.call(t).header
	for name, want := range map[string][]string{":authority": {"app.internal"}, "x-two": {"a", "b"}, "x-meant": {dressed.addr}} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if agent := got["user-agent"]; len(agent) != 1 || !strings.HasPrefix(agent[0], "monitor/1") {
		t.Errorf("the check calls itself %q", agent)
	}
	if warned := c.warnings("no effect"); len(warned) > 0 {
		t.Errorf("got warnings %q", warned)
	}
}

// A check over gRPC is secured as the pool's requests are.
func TestProbeGRPCOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	b := newGRPC(t, listenStable(t), nil, grpc.Creds(credentials.NewTLS(ca.mutualConfig(t, "backend.internal"))))
	lax := newGRPC(t, tls.NewListener(listenStable(t), ca.serverConfig(t, "backend.internal")), nil) // without ALPN
	plain := newGRPC(t, listenStable(t), nil)
	cert, key := ca.clientFiles(t, "client.internal")
	trust := "tls_trust_pool file " + ca.file
	name := "tls_server_name backend.internal"
	auth := "tls_client_auth " + cert + " " + key
	tests := []struct {
		name, upstream, reason string
		transport              []string
	}{
		{"good", b.addr, "", []string{trust, name, auth}},
		{"global placeholder", b.addr, "", []string{trust, "tls_server_name {env.LOADBALANCE_NAME}", auth}},
		{"not trusted", b.addr, "tls", []string{name, auth}},
		{"misnamed", b.addr, "tls", []string{trust, "tls_server_name other.internal", auth}},
		{"without a name", b.addr, "tls", []string{trust, auth}},
		{"without a certificate", b.addr, "tls", []string{trust, name}},
		{"without HTTP/2", lax.addr, "not grpc", []string{trust, name}},
		{"without TLS", plain.addr, "tls", []string{trust, name}},
		{"port closed", refusedAddr(t), "connection refused", []string{trust, name}},
	}
	var sites strings.Builder
	for _, tt := range tests {
		transport := "transport http {\n" + strings.Join(tt.transport, "\n") + "\n}"
		sites.WriteString(site(freeAddr(t), to("https://"+tt.upstream, fmt.Sprintf("name %q", tt.name), "health_protocol grpc", transport)))
	}
	c := newCaddy(t)
	env := filepath.Join(c.dir, "env")
	if err := os.WriteFile(env, []byte("LOADBALANCE_NAME=backend.internal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, "run", "--adapter", "caddyfile", "--config", c.write(t, sites.String()), "--envfile", env)
	for _, tt := range tests {
		row := c.waitRow(t, tt.name)
		if tt.name == "without a certificate" && row.Reason == "connection reset" {
			continue // the alert of a server that hangs up at once may be lost
		}
		if row.Reason != tt.reason || row.LastCheck.OK != (tt.reason == "") {
			t.Errorf("%s: got %s (%s)", tt.name, row.Status, row.Reason)
		}
	}
	for _, call := range b.calls() {
		state := call.tls.State
		if state.ServerName != "backend.internal" || len(state.PeerCertificates) != 1 || state.NegotiatedProtocol != "h2" {
			t.Errorf("the check came with %+v", state)
		}
	}
}

// Over TLS, the scheme of a check is https: some servers refuse others.
func TestProbeGRPCScheme(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	service := grpc.NewServer()
	healthpb.RegisterHealthServer(service, grpchealth.NewServer())
	ln := listenStable(t)
	server := &http.Server{
		TLSConfig: ca.serverConfig(t, "backend.internal"), ErrorLog: noLog,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil { // net/http believes the scheme
				w.WriteHeader(http.StatusMisdirectedRequest)
				return
			}
			service.ServeHTTP(w, r)
		}),
	}
	go func() { _ = server.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	addr := ln.Addr().String()
	c := launch(t, site(freeAddr(t), to("https://"+addr, "name x", "health_protocol grpc",
		"transport http {\ntls_server_name backend.internal\ntls_trust_pool file "+ca.file+"\n}")))
	if row := c.waitRow(t, "x"); row.Status != "up" {
		t.Errorf("got %+v, %+v", row, row.LastCheck)
	}
}

// health_port and health_upstream send checks over gRPC elsewhere, too.
func TestProbeGRPCElsewhere(t *testing.T) {
	t.Parallel()
	health := newGRPC(t, listenStable(t), nil)
	_, port, err := net.SplitHostPort(health.addr)
	if err != nil {
		t.Fatal(err)
	}
	one, two := newGRPC(t, listenStable(t), nil), newGRPC(t, listenStable(t), nil)
	c := launch(t, site(freeAddr(t), to(one.addr, overGRPC, "health_port "+port))+
		site(freeAddr(t), to(two.addr, overGRPC, "health_upstream "+health.addr)))
	c.waitStatus(t, "up", one.addr, two.addr)
	if len(one.calls()) > 0 || len(two.calls()) > 0 {
		t.Error("the upstreams themselves were checked")
	}
	health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	c.waitStatus(t, "down", one.addr, two.addr)
}

// Checks over gRPC leave nothing behind, however they end.
func TestProbeGRPCLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const often = "health_interval 10ms\nhealth_jitter 0\nhealth_increment 0\nhealth_max_failures never\nhealth_timeout 20ms\nhealth_protocol grpc"
	well := newGRPC(t, listenStable(t), nil)
	hangs := newGRPC(t, listenStable(t), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	silent := newRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	rude := newRaw(t, func(net.Conn) {})
	c := launch(t, site(freeAddr(t), to(well.addr, often))+site(freeAddr(t), to(hangs.addr, often))+
		site(freeAddr(t), to(silent.addr, often))+site(freeAddr(t), to(rude.addr, often)))
	checked := func(times int64) {
		eventually(t, "all are checked often", func() bool {
			return int64(len(well.calls())) > times && int64(len(hangs.calls())) > times && silent.accepted.Load() > times && rude.accepted.Load() > times
		})
	}
	checked(20)
	before := c.goroutines(t)
	checked(120)
	if after := c.goroutines(t); after > before+40 { // those of the checks under way come and go
		t.Errorf("%d goroutines, then %d", before, after)
	}
	var plain []string
	for line := range strings.Lines(c.log.String()) {
		if !strings.HasPrefix(line, "{") {
			plain = append(plain, line)
		}
	}
	if len(plain) > 0 {
		t.Errorf("the log has lines that are not Caddy's: %q", plain)
	}
}
