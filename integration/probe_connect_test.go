package integration

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Tests of how checks over TCP and gRPC connect.

// A check over TCP is a TLS handshake where the pool's requests begin with
// one, and says nothing else.
func TestProbeTCPOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var mu sync.Mutex
	var seen []tls.ConnectionState // of handshakes that were completed
	var said int64
	config := ca.mutualConfig(t, "backend.internal")
	config.MaxVersion = tls.VersionTLS12 // in which a client waits until its certificate is accepted
	b := newRaw(t, func(conn net.Conn) {
		secure := tls.Server(conn, config)
		if secure.Handshake() != nil {
			return
		}
		n, _ := io.Copy(io.Discard, secure)
		mu.Lock()
		defer mu.Unlock()
		seen, said = append(seen, secure.ConnectionState()), said+n
	})
	cert, key := ca.clientFiles(t, "client.internal")
	trust, name, auth := "tls_trust_pool file "+ca.file, "tls_server_name backend.internal", "tls_client_auth "+cert+" "+key
	_, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, upstream, reason string
		transport              []string
	}{
		{"good", b.addr, "", []string{trust, name, auth}},
		{"not trusted", b.addr, "tls", []string{name, auth}},
		{"misnamed", b.addr, "tls", []string{trust, "tls_server_name other.internal", auth}},
		{"without a certificate", b.addr, "tls", []string{trust, name}},
		{"excepted", b.addr, "", []string{trust, "tls_except_ports " + port}},
		{"no TLS there", newWitness(t, nil).addr, "tls", []string{trust, name}},
		{"hangs up", newRaw(t, func(net.Conn) {}).addr, "tls", []string{trust, name}},
		{"silent", newRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).addr, "timeout", []string{trust, name}},
		{"too slow for the pool", newRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).addr, "timeout", []string{trust, name, "tls_timeout 100ms"}},
		{"port closed", refusedAddr(t), "connection refused", []string{trust, name}},
	}
	var sites strings.Builder
	for _, tt := range tests {
		transport := "transport http {\n" + strings.Join(tt.transport, "\n") + "\n}"
		sites.WriteString(site(freeAddr(t), to("https://"+tt.upstream, fmt.Sprintf("name %q", tt.name), "health_timeout 2s", "health_protocol tcp", transport)))
	}
	c := launch(t, sites.String())
	for _, tt := range tests {
		row := c.waitRow(t, tt.name)
		if row.Reason != tt.reason || row.LastCheck.OK != (tt.reason == "") {
			t.Errorf("%s: got %s (%s), want %q", tt.name, row.Status, row.Reason, tt.reason)
		}
		if tt.name == "too slow for the pool" && row.LastCheck.DurationMS > 1900 {
			t.Errorf("%s: the check took %v ms", tt.name, row.LastCheck.DurationMS)
		}
	}
	eventually(t, "a handshake is completed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	for _, state := range seen {
		if state.ServerName != "backend.internal" || len(state.PeerCertificates) != 1 {
			t.Errorf("a check came with %+v", state)
		}
	}
	if said > 0 {
		t.Errorf("checks said %d bytes", said)
	}
}

// Of a transport that depends on the request, checks over TCP and gRPC need
// only the TLS part: what cannot be checked is served unchecked.
func TestProbeOtherProtocolsPlaceholderTransport(t *testing.T) {
	t.Parallel()
	const (
		proxied = "transport http {\nnetwork_proxy url http://proxy.internal:1/{http.request.host}\n}"
		named   = "transport http {\ntls_server_name {http.request.host}\n}"
	)
	b := newGRPC(t, listenStable(t), nil)
	secure := newRaw(t, func(net.Conn) {})
	c := launch(t, ""+
		site(freeAddr(t), to(b.addr, "name tcp", "health_protocol tcp", proxied))+
		site(freeAddr(t), to(b.addr, "name grpc", "health_protocol grpc", proxied))+
		site(freeAddr(t), to(b.addr, "name http", "health_protocol http", proxied))+
		site(freeAddr(t), to("https://"+secure.addr, "name tls", "health_protocol tcp", named))+
		site(freeAddr(t), to("https://"+secure.addr, "name grpcs", "health_protocol grpc", named)))
	for _, pool := range []string{"tcp", "grpc"} {
		if row := c.waitRow(t, pool); row.Status != "up" || row.Reason != "" {
			t.Errorf("%s: got %+v, %+v", pool, row, row.LastCheck)
		}
	}
	for _, pool := range []string{"http", "tls", "grpcs"} {
		if row := c.row(t, pool); row.Status != "up" || row.Reason != "unchecked" || row.LastCheck != nil {
			t.Errorf("%s: got %+v, %+v", pool, row, row.LastCheck)
		}
	}
	if n := secure.accepted.Load(); n > 0 {
		t.Errorf("%d connections without checks", n)
	}
	if warned := c.warnings("cannot be checked"); len(warned) != 3 {
		t.Errorf("got warnings %q", warned)
	}
}

// What is configured in vain is warned about.
func TestProbeOtherProtocolsIdleOptions(t *testing.T) {
	t.Parallel()
	b := newGRPC(t, listenStable(t), nil)
	c := launch(t, ""+
		site(freeAddr(t), to(b.addr, "name tcp", "health_protocol tcp", "health_uri /health"))+
		site(freeAddr(t), to(b.addr, "name grpc", "health_protocol grpc", "health_status 200"))+
		site(freeAddr(t), to(b.addr, "name fine", "health_protocol grpc", "health_headers {\nX-One a\n}", "health_timeout 1s")))
	for _, pool := range []string{"tcp", "grpc", "fine"} {
		if row := c.waitRow(t, pool); row.Status != "up" {
			t.Errorf("%s: got %+v", pool, row)
		}
	}
	if warned := c.warnings("has no effect"); len(warned) != 2 {
		t.Errorf("got warnings %q", warned)
	}
}

// A proxyListener wants a PROXY header of every connection.
type proxyListener struct {
	net.Listener
	mu      sync.Mutex
	sources []string
}

func (l *proxyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(conn)
		source, err := proxyHeaderV2(in)
		if err != nil {
			_ = conn.Close()
			continue
		}
		l.mu.Lock()
		l.sources = append(l.sources, source.String())
		l.mu.Unlock()
		return &readAhead{Conn: conn, in: in}, nil
	}
}

// readAhead is a connection of which something has been read.
type readAhead struct {
	net.Conn
	in *bufio.Reader
}

func (c *readAhead) Read(b []byte) (int, error) { return c.in.Read(b) }

// Checks over gRPC and TCP begin with a PROXY header where requests do, before
// the TLS handshake.
func TestProbeOtherProtocolsProxyProtocol(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	plain, secure, tcp := &proxyListener{Listener: listenStable(t)}, &proxyListener{Listener: listenStable(t)}, &proxyListener{Listener: listenStable(t)}
	overPlain := newGRPC(t, plain, nil)
	overTLS := newGRPC(t, secure, nil, grpc.Creds(credentials.NewTLS(ca.serverConfig(t, "backend.internal"))))
	overTCP := newWitnessOn(t, tcp, nil)
	const header = "proxy_protocol v2\n"
	c := launch(t, site(freeAddr(t), to(overPlain.addr, overGRPC, "transport http {\n"+header+"}"))+
		site(freeAddr(t), to("https://"+overTLS.addr, overGRPC, "transport http {\n"+header+"tls_server_name backend.internal\ntls_trust_pool file "+ca.file+"\n}"))+
		site(freeAddr(t), to(overTCP.addr, brisk, "health_protocol tcp", "transport http {\n"+header+"}")))
	c.waitStatus(t, "up", overPlain.addr, overTLS.addr, overTCP.addr)
	for _, ln := range []*proxyListener{plain, secure, tcp} {
		eventually(t, "a PROXY header comes", func() bool {
			ln.mu.Lock()
			defer ln.mu.Unlock()
			return len(ln.sources) > 0
		})
		ln.mu.Lock()
		if got := slices.Compact(ln.sources); !slices.Equal(got, []string{"127.0.0.1"}) {
			t.Errorf("checks come from %q", got)
		}
		ln.mu.Unlock()
	}
}
