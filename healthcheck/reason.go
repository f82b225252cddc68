package healthcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// reason says in a few words why an attempt to reach a backend failed.
func reason(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case IsTLS(err):
		return "tls"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.Is(err, syscall.ENOENT):
		return "no such socket"
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return "error"
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
		// net/http and crypto/tls keep these to themselves
		err != nil && (strings.Contains(err.Error(), "TLS handshake") || strings.Contains(err.Error(), "remote error: tls:"))
}

// outOfFiles reports whether err is this machine's lack of file descriptors,
// which says nothing about the backend.
func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
