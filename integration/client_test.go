package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// get sends a GET request over a connection of its own, so that Go's client
// replays nothing, and returns status and body.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	status, body, _ := getHeader(t, url)
	return status, body
}

// getHeader is get with the response's header.
func getHeader(t testing.TB, url string) (int, string, http.Header) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// load is a steady stream of requests over connections that are kept open.
type load struct {
	url     string
	method  string
	body    string
	perSec  int
	timeout time.Duration

	client *http.Client
	stop   chan struct{}
	sent   sync.WaitGroup
	done   atomic.Int64
	// redials counts requests sent again because the connection was reset
	// before any answer, which happens when a reload changes listeners.
	redials atomic.Int64

	mu     sync.Mutex
	served map[string]int // by body
	failed []string
	slow   time.Duration // the slowest
}

// startLoad sends perSec requests a second until finish.
func startLoad(url, method, body string, perSec int, timeout time.Duration) *load {
	l := &load{
		url: url, method: method, body: body, perSec: perSec, timeout: timeout,
		stop: make(chan struct{}), served: make(map[string]int),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}},
	}
	l.sent.Add(1)
	go l.run()
	return l
}

func (l *load) run() {
	defer l.sent.Done()
	ticker := time.NewTicker(time.Second / time.Duration(l.perSec))
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.sent.Add(1)
			go l.one()
		}
	}
}

// isReset reports whether a connection was lost before there was an answer, as
// happens at a reload: who writes after the reset has been read gets another
// error.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

func (l *load) one() {
	defer l.sent.Done()
	start := time.Now()
	served, err := l.send()
	if isReset(err) {
		l.redials.Add(1)
		served, err = l.send()
	}
	took := time.Since(start)
	l.done.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = max(l.slow, took)
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("after %s: %v", took.Round(time.Millisecond), err))
		return
	}
	l.served[served]++
}

func (l *load) send() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	// a body without GetBody keeps Go's client from replaying the request
	req, err := http.NewRequestWithContext(ctx, l.method, l.url, io.NopCloser(strings.NewReader(l.body)))
	if err != nil {
		return "", err
	}
	req.ContentLength = int64(len(l.body))
	resp, err := l.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	return string(body), nil
}

// finish ends the load and waits for the last answer.
func (l *load) finish() {
	close(l.stop)
	l.sent.Wait()
	l.client.CloseIdleConnections()
}
