package integration

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// Tests of every kind of upstream while one of two flips. What else a check
// does over TLS, h2c, unix sockets, the PROXY protocol and FastCGI is in
// probe_test.go; an address with a placeholder that is served, shown as
// unchecked and never checked is there as well.

// flipping makes checks quick, and an upstream come and go for ever.
const flipping = "health_uri /health\nhealth_interval 20ms\nhealth_jitter 0\nhealth_increment 0\n" +
	"health_max_interval 20ms\nhealth_max_failures never"

// A specimen is an upstream of some kind. It sends every request's body back.
type specimen struct {
	addr string // as the admin API shows it
	// right says whether a request is as those to its kind have to be.
	right            func(r *http.Request) bool
	sick             atomic.Bool
	checks, requests atomic.Int64

	mu      sync.Mutex
	strange []string
}

func (s *specimen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.right != nil && !s.right(r) || (r.UserAgent() == healthcheck.UserAgent) != (r.URL.Path == "/health") {
		s.mu.Lock()
		s.strange = append(s.strange, fmt.Sprintf("%s %s %s from %s", r.Proto, r.Host, r.URL, r.RemoteAddr))
		s.mu.Unlock()
	}
	w.Header().Set("X-Served-By", s.addr)
	if r.URL.Path != "/health" {
		s.requests.Add(1)
		body, _ := io.ReadAll(r.Body) // to the end before the answer begins
		_, _ = w.Write(body)
		return
	}
	s.checks.Add(1)
	if s.sick.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// clientIP is where all requests of these tests come from.
const clientIP = "127.0.0.9"

// cameFrom reports whether a request came from there.
func cameFrom(r *http.Request, ip string) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host == ip
}

// echo sends a body through the balancer at addr, looks that it comes back,
// and returns by whom.
func echo(t testing.TB, addr string) string {
	t.Helper()
	sent := make([]byte, 1<<16)
	_, _ = rand.Read(sent)
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/some/where?x=%20", bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP)}}
	resp, got := roundTrip(t, &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, req)
	if resp.StatusCode != http.StatusOK || got != string(sent) {
		t.Fatalf("got status %d and %d bytes, by %q", resp.StatusCode, len(got), resp.Header.Get("X-Served-By"))
	}
	return resp.Header.Get("X-Served-By")
}

// A kind is a way to get to an upstream.
type kind struct {
	name string
	// start starts a specimen and returns its address in a Caddyfile.
	start func(t *testing.T, s *specimen) string
	// shown returns its address in the admin API. By default it is the same.
	shown   func(address string) string
	options string
	right   func(r *http.Request) bool
}

// over starts specimens in an HTTP server on a listener.
func over(listen func(t testing.TB) net.Listener, prefix string) func(*testing.T, *specimen) string {
	return func(t *testing.T, s *specimen) string {
		t.Helper()
		ln := listen(t)
		serveHTTP(t, s, ln)
		return prefix + ln.Addr().String()
	}
}

// serveHTTP serves HTTP/1.1 and h2c.
func serveHTTP(t *testing.T, s *specimen, ln net.Listener) {
	server := &http.Server{Handler: s, ErrorLog: noLog, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
}

func withoutScheme(address string) string {
	return address[strings.Index(address, "://")+len("://"):]
}

// clientFiles writes a client's certificate and key.
func (ca *authority) clientFiles(t testing.TB, name string) (cert, key string) {
	t.Helper()
	issued := ca.serverConfig(t, name).Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: issued.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// mutualConfig returns the TLS config of a server that wants to know its
// clients.
func (ca *authority) mutualConfig(t testing.TB, name string) *tls.Config {
	t.Helper()
	config := ca.serverConfig(t, name)
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	config.ClientCAs.AddCert(ca.cert)
	return config
}

// proxied is a listener whose clients tell their address by the PROXY
// protocol.
type proxied struct {
	net.Listener
	read func(in *bufio.Reader) (net.IP, error)
}

func (l *proxied) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxiedConn{Conn: conn, in: bufio.NewReader(conn), read: l.read}, nil
}

type proxiedConn struct {
	net.Conn
	in     *bufio.Reader
	read   func(in *bufio.Reader) (net.IP, error)
	once   sync.Once
	source net.IP
	err    error
}

func (c *proxiedConn) header() { c.once.Do(func() { c.source, c.err = c.read(c.in) }) }

func (c *proxiedConn) Read(b []byte) (int, error) {
	if c.header(); c.err != nil {
		return 0, c.err
	}
	return c.in.Read(b)
}

func (c *proxiedConn) RemoteAddr() net.Addr {
	c.header()
	return &net.TCPAddr{IP: c.source, Port: 1}
}

// A quicServer is an HTTP/3 server.
type quicServer struct {
	conn   net.PacketConn
	server *http3.Server
}

// stop stops the server, which tells its clients; kill does not.
func (s *quicServer) stop() { _ = s.server.Close(); _ = s.conn.Close() }
func (s *quicServer) kill() { _ = s.conn.Close(); _ = s.server.Close() }

// serveHTTP3 starts an HTTP/3 server at addr.
func serveHTTP3(t testing.TB, addr string, config *tls.Config, handler http.Handler) *quicServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &quicServer{conn, &http3.Server{Handler: handler, TLSConfig: http3.ConfigureTLSConfig(config)}}
	go func() { _ = s.server.Serve(conn) }()
	t.Cleanup(s.kill)
	return s
}

func kinds(t *testing.T) []kind {
	ca := newAuthority(t)
	certFile, keyFile := ca.clientFiles(t, "balancer.internal")
	trust := "tls_trust_pool file " + ca.file + "\ntls_server_name backend.internal\n"
	named := func(r *http.Request) bool { return r.TLS != nil && r.TLS.ServerName == "backend.internal" }
	proto := func(proto string) func(r *http.Request) bool {
		return func(r *http.Request) bool { return r.Proto == proto }
	}
	proxyProtocol := func(version string, read func(in *bufio.Reader) (net.IP, error)) kind {
		return kind{
			name: "PROXY protocol " + version,
			start: over(func(t testing.TB) net.Listener {
				return &proxied{Listener: listenStable(t), read: read}
			}, ""),
			options: "transport http {\nproxy_protocol " + version + "\n}",
			right: func(r *http.Request) bool {
				return cameFrom(r, map[bool]string{true: "127.0.0.1", false: clientIP}[r.URL.Path == "/health"])
			},
		}
	}
	return []kind{
		{
			name:  "HTTP/1.1",
			start: over(listenStable, ""), right: proto("HTTP/1.1"),
		},
		{
			name: "HTTPS with a private authority, server name and client certificate",
			start: over(func(t testing.TB) net.Listener {
				return tls.NewListener(listenStable(t), ca.mutualConfig(t, "backend.internal"))
			}, "https://"),
			shown: withoutScheme, options: "transport http {\n" + trust + "tls_client_auth " + certFile + " " + keyFile + "\n}",
			right: func(r *http.Request) bool {
				return named(r) && r.Proto == "HTTP/1.1" && r.TLS.PeerCertificates[0].Subject.CommonName == "balancer.internal"
			},
		},
		{
			name: "HTTPS with HTTP/2",
			start: func(t *testing.T, s *specimen) string {
				t.Helper()
				ln := listenStable(t)
				server := &http.Server{Handler: s, ErrorLog: noLog, TLSConfig: ca.serverConfig(t, "backend.internal")}
				go func() { _ = server.ServeTLS(ln, "", "") }()
				t.Cleanup(func() { _ = server.Close() })
				return "https://" + ln.Addr().String()
			},
			shown: withoutScheme, options: "transport http {\n" + trust + "}",
			right: func(r *http.Request) bool { return named(r) && r.Proto == "HTTP/2.0" },
		},
		{
			name: "HTTP/3 with client certificate",
			start: func(t *testing.T, s *specimen) string {
				t.Helper()
				addr := freeAddr(t)
				serveHTTP3(t, addr, ca.mutualConfig(t, "backend.internal"), s)
				return "https://" + addr
			},
			shown:   withoutScheme,
			options: "transport http {\nversions 3\n" + trust + "tls_client_auth " + certFile + " " + keyFile + "\n}",
			right: func(r *http.Request) bool {
				return named(r) && r.Proto == "HTTP/3.0" && r.TLS.PeerCertificates[0].Subject.CommonName == "balancer.internal"
			},
		},
		{
			name:  "h2c",
			start: over(listenStable, "h2c://"), shown: withoutScheme, right: proto("HTTP/2.0"),
		},
		{
			name:  "unix socket",
			start: over(listenUnix, "unix/"), right: proto("HTTP/1.1"),
		},
		{
			name:  "h2c over a unix socket",
			start: over(listenUnix, "unix+h2c/"), shown: func(address string) string { return strings.Replace(address, "+h2c", "", 1) },
			right: proto("HTTP/2.0"),
		},
		{
			name: "IPv6",
			start: over(func(t testing.TB) net.Listener {
				_, port, _ := net.SplitHostPort(freeAddr(t))
				ln, err := net.Listen("tcp", "[::1]:"+port)
				if err != nil {
					t.Skipf("this machine has no IPv6 on loopback: %v", err)
				}
				return ln
			}, ""),
			right: func(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "[::1]:") },
		},
		proxyProtocol("v1", proxyHeaderV1),
		proxyProtocol("v2", proxyHeaderV2),
		{
			name: "FastCGI with HTTP checks",
			start: func(t *testing.T, s *specimen) string {
				t.Helper()
				ln := listenStable(t)
				go func() { _ = fcgi.Serve(ln, s) }()
				return ln.Addr().String()
			},
			options: "health_protocol http\ntransport fastcgi {\nroot /srv\n}",
			right: func(r *http.Request) bool {
				return r.URL.Path == "/health" || cameFrom(r, clientIP) && fcgi.ProcessEnv(r)["DOCUMENT_ROOT"] == "/srv"
			},
		},
	}
}

// Upstreams of every kind are checked and served the way of their kind. One
// that is sick serves nothing, the other everything, and when it is well again
// they take turns as before.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			steady, flips := &specimen{right: k.right}, &specimen{right: k.right}
			var addresses []string
			for _, s := range []*specimen{steady, flips} {
				address := k.start(t, s)
				addresses = append(addresses, address)
				s.addr = address
				if k.shown != nil {
					s.addr = k.shown(address)
				}
			}
			c := launch(t, site(addr, to(strings.Join(addresses, " "), flipping, k.options)))
			c.waitStatus(t, "up", steady.addr, flips.addr)
			c.flip(t, addr, steady, flips)
		})
	}
}

// flip makes the second of two upstreams sick and well again, three times, and
// looks who serves.
func (c *caddyProcess) flip(t *testing.T, addr string, steady, flips *specimen) {
	t.Helper()
	share := func(want map[string]int) {
		t.Helper()
		got := make(map[string]int)
		for range 6 {
			got[echo(t, addr)]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("served by %v, want %v", got, want)
		}
	}
	share(map[string]int{steady.addr: 3, flips.addr: 3})
	for range 3 {
		flips.sick.Store(true)
		c.waitStatus(t, "down", flips.addr)
		if row := c.upstream(t, flips.addr); row.Reason != "status 503" {
			t.Errorf("reason %q", row.Reason)
		}
		share(map[string]int{steady.addr: 6})
		flips.sick.Store(false)
		c.waitStatus(t, "up", flips.addr)
		share(map[string]int{steady.addr: 3, flips.addr: 3})
	}
	for _, s := range []*specimen{steady, flips} {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.strange) > 0 {
			t.Errorf("%s got %d strange requests, the first %s", s.addr, len(s.strange), s.strange[0])
		}
		if row := c.upstream(t, s.addr); row.Errors > 0 || s.checks.Load() == 0 || row.Requests != uint64(s.requests.Load()) {
			t.Errorf("%s had %d checks and %d requests: %+v", s.addr, s.checks.Load(), s.requests.Load(), row)
		}
	}
}

// A range of ports is as many upstreams, each checked and served for itself.
func TestKindPortRange(t *testing.T) {
	t.Parallel()
	listeners, first := listenRange(t, 3)
	var specimens []*specimen
	for i, ln := range listeners {
		s := &specimen{addr: fmt.Sprintf("localhost:%d", first+i)}
		serveHTTP(t, s, ln)
		specimens = append(specimens, s)
	}
	addr := freeAddr(t)
	c := launch(t, site(addr, to(fmt.Sprintf("localhost:%d-%d", first, first+2), flipping)))
	turn := func(wants ...*specimen) {
		t.Helper()
		got := make(map[string]int)
		for range 2 * len(wants) {
			got[echo(t, addr)]++
		}
		for _, s := range wants {
			if got[s.addr] != 2 {
				t.Errorf("served by %v, want twice %s", got, s.addr)
			}
		}
	}
	for _, s := range specimens {
		c.waitStatus(t, "up", s.addr)
	}
	if rows := c.upstreams(t); len(rows) != 3 || rows[0].Pool != specimens[0].addr {
		t.Errorf("shown: %+v", rows)
	}
	turn(specimens...)
	for i, s := range specimens {
		s.sick.Store(true)
		c.waitStatus(t, "down", s.addr)
		turn(specimens[(i+1)%3], specimens[(i+2)%3])
		s.sick.Store(false)
		c.waitStatus(t, "up", s.addr)
	}
	turn(specimens...)
}

// listenRange opens n listeners on adjacent ports of loopback.
func listenRange(t testing.TB, n int) (listeners []net.Listener, first int) {
	t.Helper()
	for range 100 {
		ln := listenStable(t)
		listeners, first = []net.Listener{ln}, ln.Addr().(*net.TCPAddr).Port
		for len(listeners) < n {
			addr := fmt.Sprintf("127.0.0.1:%d", first+len(listeners))
			if !claim(addr) {
				break
			}
			ln, err := net.Listen("tcp", addr)
			if err != nil {
				break
			}
			t.Cleanup(func() { _ = ln.Close() })
			listeners = append(listeners, ln)
		}
		if len(listeners) == n {
			return listeners, first
		}
	}
	t.Fatal("no ports are free side by side")
	return nil, 0
}

// Each client of an address with a placeholder gets to its own backend, also
// while an upstream beside it flips.
func TestKindPlaceholder(t *testing.T) {
	t.Parallel()
	one, two, flips := newWitness(t, nil), newWitness(t, nil), newPatient(t, false)
	const address = "{http.request.header.X-Backend}"
	addr := freeAddr(t)
	c := launch(t, site(addr, to(address+" "+flips.addr, flipping)))
	c.waitStatus(t, "up", address, flips.addr)
	serve := func(want map[string]int) {
		t.Helper()
		for _, own := range []*witness{one, two} {
			got := make(map[string]int)
			for range 4 {
				_, body := getWith(t, "http://"+addr, http.Header{"X-Backend": {own.addr}})
				got[map[bool]string{true: "own", false: body}[body == own.addr]]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("served by %v, want %v", got, want)
			}
		}
	}
	for range 3 {
		serve(map[string]int{"own": 2, flips.addr: 2})
		flips.sick.Store(true)
		c.waitStatus(t, "down", flips.addr)
		serve(map[string]int{"own": 4})
		flips.sick.Store(false)
		c.waitStatus(t, "up", flips.addr)
	}
}

// A FastCGI responder is by default in rotation while it accepts connections.
func TestKindFastCGI(t *testing.T) {
	t.Parallel()
	steady, stops := new(specimen), new(specimen)
	listen := func(s *specimen, ln net.Listener) net.Listener {
		s.addr = ln.Addr().String()
		go func() { _ = fcgi.Serve(ln, s) }()
		return ln
	}
	listen(steady, listenStable(t))
	ln := listen(stops, listenStable(t))
	addr := freeAddr(t)
	c := launch(t, site(addr, to(steady.addr+" "+stops.addr, "transport fastcgi {\nroot /srv\n}",
		strings.Replace(flipping, "health_uri /health", "", 1))))
	c.waitStatus(t, "up", steady.addr, stops.addr)
	count := func() int {
		n := 0
		for range 6 {
			if echo(t, addr) == stops.addr {
				n++
			}
		}
		return n
	}
	for range 3 {
		if n := count(); n != 3 {
			t.Errorf("the second one served %d of 6", n)
		}
		_ = ln.Close()
		c.waitStatus(t, "down", stops.addr)
		if n := count(); n != 0 || c.upstream(t, stops.addr).Reason != "connection refused" {
			t.Errorf("one that has stopped: %+v, served %d of 6", c.upstream(t, stops.addr), n)
		}
		again, err := net.Listen("tcp", stops.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		ln = listen(stops, again)
		c.waitStatus(t, "up", stops.addr)
	}
	if steady.checks.Load()+stops.checks.Load() > 0 {
		t.Error("a tcp check sent a request")
	}
}

// A backend that wants a client certificate and gets none, or another
// authority's, fails its checks, whatever the protocol. Over TCP the client
// takes the connection for good before the backend refuses it, and may find it
// closed when it reads why, or HTTP/2 may keep that to itself.
func TestKindClientCertificateMissing(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	certFile, keyFile := other.clientFiles(t, "stranger.internal")
	trust := "tls_trust_pool file " + ca.file + "\ntls_server_name backend.internal\n"
	for _, version := range []string{"1.1", "2", "3"} {
		for name, auth := range map[string]string{"none": "", "of another authority": "tls_client_auth " + certFile + " " + keyFile + "\n"} {
			t.Run(version+", "+name, func(t *testing.T) {
				t.Parallel()
				s := new(specimen)
				s.addr = freeAddr(t)
				if version == "3" {
					serveHTTP3(t, s.addr, ca.mutualConfig(t, "backend.internal"), s)
				} else {
					ln, err := net.Listen("tcp", s.addr)
					if err != nil {
						t.Fatal(err)
					}
					server := &http.Server{Handler: s, ErrorLog: noLog, TLSConfig: ca.mutualConfig(t, "backend.internal")}
					go func() { _ = server.ServeTLS(ln, "", "") }()
					t.Cleanup(func() { _ = server.Close() })
				}
				c := launch(t, site(freeAddr(t), to("https://"+s.addr, "transport http {\nversions "+version+"\n"+trust+auth+"}")))
				c.waitStatus(t, "down", s.addr)
				row := c.upstream(t, s.addr)
				closed := version != "3" && strings.HasPrefix(row.Reason, "connection ")
				if row.Reason != "tls" && !closed || s.checks.Load() > 0 {
					t.Errorf("reason %q, %+v", row.Reason, row.LastCheck)
				}
			})
		}
	}
}

// An HTTP/3 backend that is killed leaves the rotation, and comes back after
// its restart: at once if it took leave of its clients, else when QUIC gives up
// their connections, after 30 seconds of silence.
func TestKindHTTP3Restarted(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := ca.serverConfig(t, "backend.internal")
	for name, most := range map[string]time.Duration{"stopped": patience, "killed": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steady, ends := &specimen{addr: freeAddr(t)}, &specimen{addr: freeAddr(t)}
			serveHTTP3(t, steady.addr, config, steady)
			first := serveHTTP3(t, ends.addr, config, ends)
			addr := freeAddr(t)
			c := launch(t, site(addr, to("https://"+steady.addr+" https://"+ends.addr, flipping, "health_timeout 2s",
				"transport http {\nversions 3\ntls_trust_pool file "+ca.file+"\ntls_server_name backend.internal\n}")))
			c.waitStatus(t, "up", steady.addr, ends.addr)
			serve := func(want int64) {
				t.Helper()
				n := ends.requests.Load()
				for range 4 {
					echo(t, addr)
				}
				if got := ends.requests.Load() - n; got != want {
					t.Errorf("it served %d of 4 requests, want %d", got, want)
				}
			}
			serve(2)
			if name == "stopped" {
				first.stop()
			} else {
				first.kill()
			}
			c.waitStatus(t, "down", ends.addr)
			serve(0)
			serveHTTP3(t, ends.addr, config, ends)
			within(t, most, "it is up again", func() bool { return c.upstream(t, ends.addr).Status == "up" })
			serve(2)
		})
	}
}
