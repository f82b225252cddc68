//go:build linux

// Package backend is a web server that can be made to misbehave. It runs as a
// process of its own, so that it can be killed, frozen and started again.
//
// One process has a listener for traffic and one for health checks. Lines on
// its standard input, the names of modes, change how it answers; when its
// standard input ends, so does the process.
package backend

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/child"
)

// A Mode is a way to answer.
type Mode string

const (
	// Well answers every request after the service time.
	Well Mode = "well"
	// Errors answers traffic with status 500; health checks pass.
	Errors Mode = "errors"
	// Slow takes a hundred times the service time; health checks pass.
	Slow Mode = "slow"
	// Truncated breaks every response body off; health checks pass.
	Truncated Mode = "truncated"
	// Booting answers everything, health checks too, with status 503.
	Booting Mode = "booting"
)

// Slowdown is by how much Slow is slower.
const Slowdown = 100

// graceTime is how long running requests may take when the process is asked to
// end.
const graceTime = 5 * time.Second

// Header is the response header with the traffic address of the backend.
const Header = "X-Backend"

// Health is the path of health checks.
const Health = "/health"

// server answers in the mode that is set.
type server struct {
	name    string
	service time.Duration
	body    []byte
	mode    atomic.Value
}

// Main is the main function of the process. The arguments are those of Start.
func Main(args []string) error {
	flags := flag.NewFlagSet("backend", flag.ContinueOnError)
	traffic := flags.String("traffic", "", "address for traffic")
	health := flags.String("health", "", "address for health checks; those for traffic too if empty")
	service := flags.Duration("service", 0, "time that a request takes")
	size := flags.Int("size", 1000, "size of response bodies in bytes")
	mode := flags.String("mode", string(Well), "first mode")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &server{name: *traffic, service: *service, body: make([]byte, *size)}
	for i := range s.body {
		s.body[i] = 'x'
	}
	s.mode.Store(Mode(*mode))

	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serve)
	mux.HandleFunc(Health, s.check)
	web := &http.Server{Handler: mux}
	serve := web.Serve
	if Mode(*mode) == Fixed {
		serve = newFixed(*size).serve
	}
	ended := make(chan error, 3)
	for _, address := range []string{*traffic, *health} {
		if address == "" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() { ended <- serve(listener) }()
	}
	fmt.Println(child.Ready)

	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			s.mode.Store(Mode(lines.Text()))
		}
		ended <- lines.Err()
	}()
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-asked.Done():
		ctx, cancel := context.WithTimeout(context.Background(), graceTime)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			return web.Close() // what takes longer is cut off
		}
		return nil
	}
}

// serve answers traffic.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	service, mode := s.service, s.mode.Load().(Mode)
	if mode == Slow {
		service *= Slowdown
	}
	select {
	case <-time.After(service):
	case <-r.Context().Done():
		return
	}
	w.Header().Set(Header, s.name)
	w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
	switch mode {
	case Errors:
		w.WriteHeader(http.StatusInternalServerError)
	case Booting:
		w.WriteHeader(http.StatusServiceUnavailable)
	case Truncated:
		_, _ = w.Write(s.body[:len(s.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(s.body)
}

// check answers health checks.
func (s *server) check(w http.ResponseWriter, _ *http.Request) {
	if s.mode.Load() == Booting {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
