package healthcheck

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func TestReason(t *testing.T) {
	dial := func(err error) error {
		return reverseproxy.NewDialError(&net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
		void bool
	}{
		{"refused", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused", false},
		{"refused, hidden", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused", false},
		{"refused, hidden and wrapped", &url.Error{Op: "Get", Err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))}, "connection refused", false},
		{"dial timeout, hidden", dial(os.ErrDeadlineExceeded), "timeout", false},
		{"connecting timed out, hidden", dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), "timeout", false},
		{"TLS timeout", tlsTimeout{}, "timeout", false},
		{"TLS deadline", fmt.Errorf("TLS handshake: %w", context.DeadlineExceeded), "timeout", false},
		{"TLS hangup", fmt.Errorf("TLS handshake: %w", io.EOF), "tls", false},
		{"check timeout", errTimeout, "timeout", false},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), "timeout", false},
		{"name, hidden", dial(&net.DNSError{Err: "no such host", Name: "x"}), "dns", false},
		{"socket, hidden", dial(os.NewSyscallError("connect", syscall.ENOENT)), "no such socket", false},
		{"files, hidden", dial(os.NewSyscallError("socket", syscall.EMFILE)), "error", true},
		{"reset", os.NewSyscallError("read", syscall.ECONNRESET), "connection reset", false},
		{"closed", io.EOF, "connection closed", false},
		{"closed, HTTP/2", errors.New("http2: client conn could not be established"), "connection closed", false},
		{"authority, HTTP/3", errors.New("http3: parsing frame failed: CRYPTO_ERROR 0x130 (remote): tls: unknown certificate authority"), "tls", false},
		{"authority", x509.UnknownAuthorityError{}, "tls", false},
		{"a backend's own words", errors.New(`malformed HTTP status code "too many open files"`), "error", false},
		{"a backend's own words at the end", errors.New(`malformed: too many open files`), "error", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			report := failed(tc.err)
			if report.Reason != tc.want || report.Void != tc.void {
				t.Errorf("got %q, void %t", report.Reason, report.Void)
			}
			if report.Answered || report.TimedOut() != (tc.want == "timeout") {
				t.Errorf("answered %t, timed out %t", report.Answered, report.TimedOut())
			}
		})
	}
}

func TestCheckable(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost:80":            true,
		"{env.NOT_SET}:80":        true, // the check says what is wrong
		"{http.request.host}:80":  false,
		"unix//run/{http.vars.x}": false,
	} {
		if got := Checkable(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	for _, tc := range []struct {
		config    string
		http, tls bool // whether checks can be made over HTTP, and otherwise
	}{
		{``, true, true},
		{`{"protocol":"http"}`, true, true},
		{`{"tls":{"server_name":"{http.request.host}"}}`, false, false},
		{`{"a":["{http.request.host}"]}`, false, true},
		{`{"a":["{http.request.host}"],"tls":{}}`, false, true},
		{`{"tls":{"server_name":"{env.NAME}"}}`, true, true},
	} {
		for protocol, want := range map[string]bool{ProtocolHTTP: tc.http, ProtocolTCP: tc.tls, ProtocolGRPC: tc.tls} {
			if got := CheckableTransport([]byte(tc.config), protocol); got != want {
				t.Errorf("%s over %s: %t", tc.config, protocol, got)
			}
		}
	}
}

// tlsTimeout is what net/http says of a TLS handshake that took too long.
type tlsTimeout struct{}

func (tlsTimeout) Error() string   { return "net/http: TLS handshake timeout" }
func (tlsTimeout) Timeout() bool   { return true }
func (tlsTimeout) Temporary() bool { return true }
