package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

const (
	// httpsDomain is the domain that the example serves in these tests. Caddy
	// takes it for a public one, so nothing but ACME can get it a certificate.
	httpsDomain = "www.example.test"

	// acmeDomain is where the certificate authority of these tests listens.
	acmeDomain = "acme.example.test"

	// acmeAuthority is that authority's name in the certificates that it issues.
	acmeAuthority = "Loopback Test Authority"

	// acmeConfig is a Caddy that issues certificates over ACME.
	acmeConfig = `{
	auto_https disable_redirects
	skip_install_trust
	pki {
		ca local {
			name "` + acmeAuthority + `"
		}
	}
}

https://` + acmeDomain + `:14000 {
	tls internal
	acme_server
}
`
	acmeDirectory = "https://" + acmeDomain + ":14000/acme/local/directory"
)

// TestHTTPSExample runs examples/https as a user would, with a certificate
// authority on loopback in the place of Let's Encrypt.
func TestHTTPSExample(t *testing.T) {
	inNamespaces(t, []string{httpsDomain, acmeDomain}, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()

		names := []string{"red", "green", "blue"}
		rootFile := startACMECaddy(ctx, t)
		startHTTPSExample(t, rootFile, addrs(namedBackends(t, names)...))
		roots := readRoots(t, rootFile)

		checkIssuer(ctx, t, roots)
		checkRedirect(ctx, t)
		waitForNames(ctx, t, http1Transport(t, roots), names)
		checkProtocol(ctx, t, http1Transport(t, roots), "HTTP/1.1", names)
		checkProtocol(ctx, t, http2Transport(t, roots), "HTTP/2.0", names)
		checkProtocol(ctx, t, http3Transport(t, roots), "HTTP/3.0", names)
	})
}

// checkIssuer waits for the example's certificate, verifies it against the
// roots, and checks that the test's authority issued it.
func checkIssuer(ctx context.Context, t *testing.T, roots *x509.CertPool) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots}}
	var leaf *x509.Certificate
	pollHTTPS(ctx, t, "a certificate", func() error {
		conn, err := dialer.DialContext(ctx, "tcp", httpsDomain+":443")
		if err != nil {
			return err
		}
		defer conn.Close()
		leaf = conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		return nil
	})
	if !strings.HasPrefix(leaf.Issuer.CommonName, acmeAuthority) {
		t.Errorf("certificate was issued by %q, want %q", leaf.Issuer.CommonName, acmeAuthority)
	}
	if want := []string{httpsDomain}; !slices.Equal(leaf.DNSNames, want) {
		t.Errorf("certificate is for %q, want %q", leaf.DNSNames, want)
	}
}

// checkRedirect checks that plain HTTP is sent to HTTPS, path and query kept.
func checkRedirect(ctx context.Context, t *testing.T) {
	t.Helper()
	resp, _, err := fetchHTTPS(ctx, new(http.Transport), "http://"+httpsDomain+"/path?query=1")
	if err != nil {
		t.Fatal(err)
	}
	location := resp.Header.Get("Location")
	if want := "https://" + httpsDomain + "/path?query=1"; resp.StatusCode != http.StatusPermanentRedirect || location != want {
		t.Errorf("plain HTTP was answered with status %d and location %q, want 308 and %q", resp.StatusCode, location, want)
	}
}

// waitForNames waits until every backend has answered through the balancer.
func waitForNames(ctx context.Context, t *testing.T, transport http.RoundTripper, names []string) {
	t.Helper()
	seen := make(map[string]bool)
	pollHTTPS(ctx, t, "all backends in rotation", func() error {
		resp, name, err := fetchHTTPS(ctx, transport, "https://"+httpsDomain+"/")
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		seen[name] = true
		if len(seen) < len(names) {
			return fmt.Errorf("only %q answered", slices.Sorted(maps.Keys(seen)))
		}
		return nil
	})
}

// checkProtocol checks that requests of this protocol reach the backends in turn.
func checkProtocol(ctx context.Context, t *testing.T, transport http.RoundTripper, proto string, names []string) {
	t.Helper()
	const rounds = 3
	answers := make(map[string]int)
	for range rounds * len(names) {
		resp, name, err := fetchHTTPS(ctx, transport, "https://"+httpsDomain+"/")
		if err != nil {
			t.Fatalf("%s: %v", proto, err)
		}
		answers[name]++
		if resp.StatusCode != http.StatusOK || resp.Proto != proto {
			t.Errorf("%s: got status %d over %s", proto, resp.StatusCode, resp.Proto)
		}
		if resp.ProtoMajor < 3 && !strings.Contains(resp.Header.Get("Alt-Svc"), `h3=":443"`) {
			t.Errorf("%s: HTTP/3 is not offered, Alt-Svc is %q", proto, resp.Header.Get("Alt-Svc"))
		}
	}
	for _, name := range names {
		if answers[name] != rounds {
			t.Errorf("%s: got answers %v, want %d of each", proto, answers, rounds)
			break
		}
	}
}

// fetchHTTPS sends one GET request, without following redirects, and returns the
// response with its body read.
func fetchHTTPS(ctx context.Context, transport http.RoundTripper, url string) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// http1Transport speaks HTTP/1.1 only.
func http1Transport(t *testing.T, roots *x509.CertPool) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// http2Transport speaks HTTP/2 only.
func http2Transport(t *testing.T, roots *x509.CertPool) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// http3Transport speaks HTTP/3 only.
func http3Transport(t *testing.T, roots *x509.CertPool) http.RoundTripper {
	t.Helper()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(func() { _ = transport.Close() })
	return transport
}

// namedBackends starts backends that each answer their own name, and are
// healthy to those who ask at the example's health_uri.
func namedBackends(t *testing.T, names []string) []*backend {
	t.Helper()
	health := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.NotFound(w, r)
		}
	}
	var backends []*backend
	for _, name := range names {
		backends = append(backends, newBackend(t, health, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Forwarded-Proto") != "https" {
				http.Error(w, "not told of HTTPS", http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, name)
		}))
	}
	return backends
}

// startHTTPSExample starts the example, set up through its environment only.
func startHTTPSExample(t *testing.T, rootFile, backends string) {
	t.Helper()
	t.Setenv("DOMAIN", httpsDomain)
	t.Setenv("EMAIL", "admin@example.test")
	t.Setenv("BACKENDS", backends)
	t.Setenv("ACME_CA", acmeDirectory)
	t.Setenv("SSL_CERT_FILE", rootFile)
	newCaddy(t).start(t, "run", "--config", httpsExample(t, "Caddyfile"))
}

// startACMECaddy starts the certificate authority, waits until it serves, and
// returns the file with its root certificate.
func startACMECaddy(ctx context.Context, t *testing.T) (rootFile string) {
	t.Helper()
	authority := newCaddy(t)
	config := filepath.Join(authority.dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(acmeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	authority.start(t, "run", "--config", config)
	rootFile = filepath.Join(authority.dir, "data", "caddy", "pki", "authorities", "local", "root.crt")
	transport := http1Transport(t, readRoots(t, rootFile))
	pollHTTPS(ctx, t, "the ACME server", func() error {
		resp, _, err := fetchHTTPS(ctx, transport, acmeDirectory)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	})
	return rootFile
}

// readRoots reads a file of root certificates.
func readRoots(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %s", file)
	}
	return roots
}

// pollHTTPS calls attempt until it succeeds; the test fails if ctx ends before.
func pollHTTPS(ctx context.Context, t *testing.T, what string, attempt func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := attempt()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}
