package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// during runs a load of 100 requests a second for half a second.
func during(t *testing.T, cfg Config) []Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	cfg.Rate, cfg.Header, cfg.Size = 100, "X-Backend", 5
	if cfg.Method == "" {
		cfg.Method = http.MethodGet
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	return Run(ctx, time.Now(), cfg)
}

func serve(t *testing.T, h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestRunIsSteady(t *testing.T) {
	var dials atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Backend", "one")
		_, _ = w.Write([]byte("hello"))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	var done atomic.Int32
	samples := during(t, Config{Address: server.Listener.Addr().String(), Done: func(Sample) { done.Add(1) }})
	if len(samples) < 2 || len(samples) > 51 || int(done.Load()) != len(samples) {
		t.Fatalf("%d samples, %d done", len(samples), done.Load())
	}
	for i, s := range samples {
		if s.Error != "" || s.Backend != "one" || s.Took <= 0 {
			t.Errorf("sample %d: %+v", i, s)
		}
		if i > 0 && s.Start-samples[i-1].Start != 10*time.Millisecond {
			t.Errorf("sample %d was due %v after the one before", i, s.Start-samples[i-1].Start)
		}
	}
	if int(dials.Load()) > len(samples) {
		t.Errorf("%d connections for %d requests", dials.Load(), len(samples))
	}
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "status 502"},
		"short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = w.Write([]byte("he"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "body: "},
		"too short": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("he")) }, "body of 2 bytes"},
		"late":      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time"},
		"none":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range during(t, Config{Address: serve(t, tc.answer), Timeout: 300 * time.Millisecond}) {
				if !strings.HasPrefix(s.Error, tc.want) {
					t.Errorf("%q, want %q", s.Error, tc.want)
				}
			}
		})
	}
}

// TestSendsAgain checks that a GET is sent again over another connection if
// its own, used before, ends without an answer, and that a POST is not.
func TestSendsAgain(t *testing.T) {
	for method, redials := range map[string]bool{http.MethodGet: true, http.MethodPost: false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		go func() { // answers one request per connection, and takes another
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = conn.Close() }()
					in := bufio.NewReader(conn)
					for i := range 2 {
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						body := make([]byte, req.ContentLength)
						_, _ = req.Body.Read(body)
						if i == 0 {
							_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
						}
					}
				}()
			}
		}()
		again, failed := 0, 0
		for _, s := range during(t, Config{Address: listener.Addr().String(), Method: method}) {
			if s.Redialed {
				again++
			}
			if s.Error != "" {
				failed++
			}
		}
		if redials && (again == 0 || failed > 0) || !redials && (again > 0 || failed == 0) {
			t.Errorf("%s: sent again %d times, failed %d times", method, again, failed)
		}
	}
}
