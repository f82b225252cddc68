package integration

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Tests of what passes through, request by request. Most of it is Caddy's own
// code, so every one of these holds for reverse_proxy as well.

// passThrough runs a test with a site of Caddy's reverse_proxy and with one of
// load_balance before the same backend.
func passThrough(t *testing.T, serve http.HandlerFunc, options string, test func(t *testing.T, addr string)) {
	t.Helper()
	w := newWitness(t, serve)
	stock, ours := freeAddr(t), freeAddr(t)
	c := launch(t, site(ours, to(w.addr, options))+strings.Replace(site(stock, to(w.addr, options)), "load_balance", "reverse_proxy", 1))
	c.waitStatus(t, "up", w.addr)
	t.Run("reverse_proxy", func(t *testing.T) { test(t, stock) })
	t.Run("load_balance", func(t *testing.T) { test(t, ours) })
}

// A TLS handshake that fails asks for a check at once, and the request is
// retried elsewhere.
func TestTransportHandshakeFailure(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	wellConfig := ca.serverConfig(t, "backend.internal")
	good := newWitnessOn(t, tls.NewListener(listenStable(t), wellConfig), nil)
	for name, fail := range map[string]func() (*tls.Config, error){
		"refused":       func() (*tls.Config, error) { return nil, errors.New("not today") },
		"not trusted":   func() (*tls.Config, error) { return other.serverConfig(t, "backend.internal"), nil },
		"of other name": func() (*tls.Config, error) { return ca.serverConfig(t, "other.internal"), nil },
		"no common version": func() (*tls.Config, error) {
			config := ca.serverConfig(t, "backend.internal")
			config.MaxVersion = tls.VersionTLS11
			return config, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			config := wellConfig.Clone()
			config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				if broken.Load() {
					return fail()
				}
				return nil, nil
			}
			bad := newWitnessOn(t, tls.NewListener(listenStable(t), config), nil)
			addr := freeAddr(t)
			c := launch(t, site(addr, to("https://"+bad.addr+" https://"+good.addr, "health_interval 1h", "lb_policy first",
				"transport http {\ntls_trust_pool file "+ca.file+"\ntls_server_name backend.internal\nkeepalive off\n}")))
			c.waitStatus(t, "up", bad.addr, good.addr)
			if served := turns(t, addr, 2); served[1] != bad.addr {
				t.Fatalf("served by %q", served)
			}
			broken.Store(true)
			if served := turns(t, addr, 1); served[0] != good.addr {
				t.Errorf("served by %q", served)
			}
			c.waitStatus(t, "down", bad.addr) // the schedule would take an hour
			row := c.upstream(t, bad.addr)
			if row.Reason != "tls" || row.Requests != 3 || row.Errors != 1 {
				t.Errorf("got %+v, %+v", row, row.LastCheck)
			}
			turns(t, addr, 5)
			if row := c.upstream(t, bad.addr); row.Requests != 3 {
				t.Errorf("%d attempts, want 3", row.Requests)
			}
		})
	}
}

// Events are on their way as soon as they are sent.
func TestTransportServerSentEvents(t *testing.T) {
	t.Parallel()
	received := make(chan struct{})
	passThrough(t, func(w http.ResponseWriter, r *http.Request) {
		if isProbe(sight{header: r.Header}) {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-received:
			case <-r.Context().Done():
				return
			}
		}
	}, "", func(t *testing.T, addr string) {
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		for i := range 5 {
			in.Scan()
			if want := fmt.Sprintf("data: %d", i); in.Text() != want {
				t.Fatalf("got %q, want %q: %v", in.Text(), want, in.Err())
			}
			in.Scan()
			received <- struct{}{}
		}
	})
}

// A response whose client reads and writes in turn is not buffered, if flushed
// at once.
func TestTransportFullDuplex(t *testing.T) {
	t.Parallel()
	passThrough(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		in := bufio.NewScanner(r.Body)
		for in.Scan() {
			fmt.Fprintln(w, "echo", in.Text())
			_ = rc.Flush()
		}
	}, "flush_interval -1\ntransport http {\nversions h2c\n}", func(t *testing.T, addr string) {
		body, out := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, "http://"+addr, body)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		client := &http.Client{Timeout: patience, Transport: transport}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		for i := range 5 {
			fmt.Fprintln(out, i)
			in.Scan()
			if want := fmt.Sprint("echo ", i); in.Text() != want {
				t.Fatalf("got %q, want %q: %v", in.Text(), want, in.Err())
			}
		}
		_ = out.Close()
		if in.Scan() {
			t.Errorf("got %q", in.Text())
		}
	})
}

// Trailers pass in both directions.
func TestTransportTrailers(t *testing.T) {
	t.Parallel()
	for version, options := range map[string]string{"1.1": "", "h2c": "transport http {\nversions h2c\n}"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			passThrough(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Sum")
				_, _ = io.Copy(w, r.Body)
				_ = http.NewResponseController(w).Flush() // else it has a length, and HTTP/1.1 no trailer
				w.Header().Set("X-Sum", "sum of "+r.Trailer.Get("X-Up"))
				w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
			}, options, func(t *testing.T, addr string) {
				req, err := http.NewRequest(http.MethodPost, "http://"+addr, io.NopCloser(strings.NewReader("text")))
				if err != nil {
					t.Fatal(err)
				}
				req.Trailer = http.Header{"X-Up": {"client"}}
				resp, body := roundTrip(t, &http.Transport{DisableKeepAlives: true}, req)
				if resp.StatusCode != 200 || body != "text" || resp.Trailer.Get("X-Sum") != "sum of client" || resp.Trailer.Get("X-Late") != "unannounced" {
					t.Errorf("got status %d, %q, trailers %v", resp.StatusCode, body, resp.Trailer)
				}
			})
		})
	}
}

// Informational responses pass, and so does the wait for one.
func TestTransportInformational(t *testing.T) {
	t.Parallel()
	passThrough(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}, "", func(t *testing.T, addr string) {
		var mu sync.Mutex
		var early []int
		link := ""
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			early = append(early, code)
			if code == http.StatusEarlyHints {
				link = header.Get("Link")
			}
			return nil
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "http://"+addr, strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		resp, body := roundTrip(t, &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience}, req)
		mu.Lock()
		defer mu.Unlock()
		if resp.StatusCode != 200 || body != "text" || link != "</style.css>; rel=preload" || !slices.Contains(early, http.StatusContinue) {
			t.Errorf("got status %d, %q, informational %v, link %q", resp.StatusCode, body, early, link)
		}
	})
}

// Large bodies arrive as they were sent, with and without a length, several at
// a time.
func TestTransportLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 1
	passThrough(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		sum := sha256.New()
		body, err := io.ReadAll(io.TeeReader(r.Body, sum))
		if err != nil {
			return
		}
		w.Header().Set("X-Sum", hex.EncodeToString(sum.Sum(nil)))
		_, _ = w.Write(body)
	}, "", func(t *testing.T, addr string) {
		sent := make([]byte, size)
		_, _ = rand.Read(sent)
		sum := sha256.Sum256(sent)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				var body io.Reader = bytes.NewReader(sent)
				if i%2 == 1 {
					body = io.NopCloser(body) // without a length
				}
				resp, err := http.Post("http://"+addr, "application/octet-stream", body)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.Equal(got, sent) || resp.Header.Get("X-Sum") != hex.EncodeToString(sum[:]) {
					t.Errorf("sent %d bytes, got %d: %v", len(sent), len(got), err)
				}
			})
		}
		clients.Wait()
	})
}

// A connection that changes protocols is a pipe in both directions, which
// either end can close.
func TestTransportUpgrade(t *testing.T) {
	t.Parallel()
	passThrough(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
		for {
			line, err := buffered.ReadString('\n')
			if err != nil || line == "quit\n" {
				return
			}
			_, _ = io.WriteString(conn, line)
		}
	}, "", func(t *testing.T, addr string) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", addr)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %+v, %v", resp, err)
		}
		for _, line := range []string{"", "one\n", "two\n"} {
			_, _ = io.WriteString(conn, line)
			if line == "" {
				line = "hello\n"
			}
			if got, err := in.ReadString('\n'); got != line {
				t.Fatalf("got %q, want %q: %v", got, line, err)
			}
		}
		_, _ = io.WriteString(conn, "quit\n")
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("got %q, %v", rest, err)
		}
	})
}

// A load_balance in the handle_response of another one: both retry, and what
// one has tried is no matter of the other.
func TestTransportNested(t *testing.T) {
	t.Parallel()
	dies := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if isProbe(sight{header: r.Header}) {
			return
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	})
	gone := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(sight{header: r.Header}) {
			w.WriteHeader(http.StatusGone)
		}
	})
	well := newWitness(t, nil)
	addr := freeAddr(t)
	const nest = "name %s\nlb_policy first\nhealth_interval 1h\n"
	inner := "handle_response @gone {\nload_balance " + dies.addr + " " + well.addr + " {\n" + fmt.Sprintf(nest, "inner") + "}\n}"
	c := launch(t, site(addr, to(dies.addr+" "+gone.addr, fmt.Sprintf(nest, "outer"), "@gone status 410", inner)))
	eventually(t, "all are up", func() bool {
		rows := c.upstreams(t)
		for _, row := range rows {
			if row.Status != "up" {
				return false
			}
		}
		return len(rows) == 4
	})

	const n = 10
	for _, served := range turns(t, addr, n) {
		if served != well.addr {
			t.Errorf("served by %q, want %q", served, well.addr)
		}
	}
	c.waitIdle(t)
	for _, row := range c.upstreams(t) {
		failed := uint64(0)
		if row.Address == dies.addr {
			failed = n
		}
		if row.Requests != n || row.Errors != failed {
			t.Errorf("%s, %s: %d attempts, %d errors, want %d and %d", row.Pool, row.Address, row.Requests, row.Errors, n, failed)
		}
	}

	// Each ends with its own last error, after one round of its own.
	lonely := site(addr, to(dies.addr+" "+gone.addr, fmt.Sprintf(nest, "outer"), "@gone status 410",
		"handle_response @gone {\nload_balance "+dies.addr+" {\n"+fmt.Sprintf(nest, "lonely")+"}\n}"))
	if err := c.load("text/caddyfile", c.caddyfile(lonely)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new pool is up", func() bool { return c.row(t, "lonely").Status == "up" })
	if status := getAfterReload(t, "http://"+addr); status != http.StatusBadGateway {
		t.Errorf("got status %d, want 502", status)
	}
	if row := c.row(t, "lonely"); row.Requests != 1 || row.Errors != 1 {
		t.Errorf("got %+v", row)
	}
}

// getAfterReload sends a request, again if the connection is reset before an
// answer, as happens when a reload changes listeners. It returns the status.
func getAfterReload(t testing.TB, url string) int {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for again := range 5 {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			return resp.StatusCode
		}
		if again == 4 || !isReset(err) {
			t.Fatal(err)
		}
	}
	return 0
}
