package healthcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// timedOut is the reason of whatever took too long, and of nothing else.
const timedOut = "timeout"

// What is said of a backend that takes no new connections.
const (
	refused  = "connection refused"
	noSocket = "no such socket"
)

// shut reports whether that is the reason: a backend that ends in an orderly
// way takes none, but finishes what it has begun.
func shut(reason string) bool { return reason == refused || reason == noSocket }

// Reason says in a few words why an attempt to reach a backend failed.
func Reason(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case is(err, context.DeadlineExceeded), is(err, os.ErrDeadlineExceeded), is(err, syscall.ETIMEDOUT),
		errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	case IsTLS(err):
		return "tls"
	case is(err, syscall.ECONNREFUSED):
		return refused
	case is(err, syscall.ECONNRESET), is(err, syscall.EPIPE):
		return "connection reset"
	case is(err, syscall.EHOSTUNREACH), is(err, syscall.ENETUNREACH):
		return "unreachable"
	case is(err, syscall.ENOENT):
		return noSocket
	case errors.As(err, &dns), strings.HasPrefix(hidden(err), "lookup "), strings.Contains(hidden(err), ": lookup "):
		return "dns"
	case is(err, io.EOF), strings.Contains(err.Error(), "http2: client conn could not be established"):
		return "connection closed"
	}
	return "error"
}

// is reports whether err is target. Where reverseproxy.DialError hides what it
// wraps, the text has to do.
func is(err, target error) bool {
	return errors.Is(err, target) || strings.HasSuffix(hidden(err), target.Error())
}

// hidden returns the text of the error that a reverseproxy.DialError hides,
// "" if there is none.
func hidden(err error) string {
	var dial reverseproxy.DialError
	if errors.As(err, &dial) {
		return dial.Error()
	}
	return ""
}

// IsTLS reports whether err comes from a TLS handshake.
func IsTLS(err error) bool {
	var (
		alert       tls.AlertError
		record      tls.RecordHeaderError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
	)
	return errors.As(err, &alert) || errors.As(err, &record) || errors.As(err, &certificate) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		// net/http and crypto/tls keep these to themselves; the last one is QUIC's
		err != nil && (strings.Contains(err.Error(), "TLS handshake") || strings.Contains(err.Error(), "remote error: tls:") ||
			strings.Contains(err.Error(), "CRYPTO_ERROR"))
}

// outOfFiles reports whether err is this machine's lack of file descriptors,
// which says nothing about the backend.
func outOfFiles(err error) bool {
	return is(err, syscall.EMFILE) || is(err, syscall.ENFILE)
}
