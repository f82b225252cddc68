package healthcheck

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Checks use connections again, those that requests have left, too, unless
// there are so many upstreams that idle ones would cost too much.
func TestConnectionsOfChecks(t *testing.T) {
	for _, tc := range []struct {
		name      string
		upstreams int
		requests  int // before
		dialed    int
	}{
		{"kept", 1000, 0, 1},
		{"left by requests", 1000, 1, 1},
		{"many upstreams", 1001, 0, 3},
		{"many upstreams and requests", 1001, 1, 1 + 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dialed := 0
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				dialed++
				near, far := net.Pipe()
				go answerAll(far)
				return near, nil
			}}
			defer transport.CloseIdleConnections()
			for range tc.requests {
				resp, err := (&http.Client{Transport: transport}).Get("http://a:80/")
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			prober, err := NewProber(Config{Protocol: ProtocolHTTP}, &reverseproxy.HTTPTransport{Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			prober.Serve(tc.upstreams)
			for range 3 {
				if report := prober.Probe("a:80")(context.Background()); !report.OK {
					t.Errorf("got %+v", report)
				}
			}
			if dialed != tc.dialed {
				t.Errorf("%d connections, want %d", dialed, tc.dialed)
			}
		})
	}
}

// answerAll answers the requests of a connection, and closes it if it is told
// to.
func answerAll(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for reader := bufio.NewReader(conn); ; {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		resp := http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Close: req.Close,
			ContentLength: 2, Body: io.NopCloser(strings.NewReader("ok")),
		}
		if resp.Write(conn) != nil || req.Close {
			return
		}
	}
}
