package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// backendEnv makes the test binary a backend that listens at that address.
// Its answers take the time in backendDelayEnv.
const (
	backendEnv      = "LOADBALANCE_BACKEND"
	backendDelayEnv = "LOADBALANCE_BACKEND_DELAY"
)

// serveBackend is the main function of a backend process: it answers with its
// address, at /health at once, else after the delay.
func serveBackend(addr string) int {
	delay, _ := time.ParseDuration(os.Getenv(backendDelayEnv))
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	name := ln.Addr().String()
	fmt.Println(name)
	err = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(delay)
		}
		_, _ = io.WriteString(w, name)
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// backendProcess is a backend that can be killed, stopped and continued.
type backendProcess struct {
	addr  string
	delay time.Duration
	cmd   *exec.Cmd
}

// startBackend starts a backend whose answers take the delay.
func startBackend(t testing.TB, delay time.Duration) *backendProcess {
	t.Helper()
	b := &backendProcess{addr: freeAddr(t), delay: delay}
	b.start(t)
	t.Cleanup(b.kill)
	return b
}

// start starts the backend, again at the same address.
func (b *backendProcess) start(t testing.TB) {
	t.Helper()
	b.cmd = exec.Command(os.Args[0])
	b.cmd.Env = append(os.Environ(), backendEnv+"="+b.addr, backendDelayEnv+"="+b.delay.String())
	b.cmd.Stderr = os.Stderr
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("backend does not say its address: %v", err)
	}
	b.addr = strings.TrimSpace(addr)
}

// kill kills the backend (SIGKILL) and waits until it is gone.
func (b *backendProcess) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// hang stops the backend (SIGSTOP), and waits until all of it has stopped:
// connections stay open and silent.
func (b *backendProcess) hang() {
	_ = b.cmd.Process.Signal(syscall.SIGSTOP)
	for {
		_, err := syscall.Wait4(b.cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
		if err != syscall.EINTR {
			return
		}
	}
}

// resume continues it.
func (b *backendProcess) resume() { _ = b.cmd.Process.Signal(syscall.SIGCONT) }

// backend is a backend in the test's own process that counts.
type backend struct {
	*httptest.Server
	addr string
	// requests counts requests, probes counts health checks.
	requests, probes atomic.Int64
}

// newBackend starts a backend. Health checks, known by their User-Agent, go
// to health, or get 200 if it is nil; requests go to serve, or are answered
// with the backend's address.
func newBackend(t testing.TB, health, serve http.HandlerFunc) *backend {
	t.Helper()
	return newBackendOn(t, listenStable(t), health, serve)
}

// newBackendAt starts a backend at an address.
func newBackendAt(t testing.TB, addr string, health, serve http.HandlerFunc) *backend {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newBackendOn(t, ln, health, serve)
}

// newBackendOn starts a backend on a listener.
func newBackendOn(t testing.TB, ln net.Listener, health, serve http.HandlerFunc) *backend {
	t.Helper()
	b := &backend{addr: ln.Addr().String()}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.UserAgent() == healthcheck.UserAgent:
			b.probes.Add(1)
			if health != nil {
				health(w, r)
			}
		default:
			b.requests.Add(1)
			if serve != nil {
				serve(w, r)
				return
			}
			_, _ = io.WriteString(w, b.addr)
		}
	})
	b.Server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: handler}}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// addrs returns the addresses of backends, as a Caddyfile wants them.
func addrs(backends ...*backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, b.addr)
	}
	return strings.Join(list, " ")
}

// answer returns a handler that answers with a status and nothing else.
func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}
