//go:build linux

package backend

import (
	"bytes"
	"fmt"
	"net"
	"strings"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/exchange"
)

// Fixed is the mode of a backend that does as little as a server can, so that
// it is not what limits others: it answers every GET with status 200 and bytes
// that are always the same, health checks too. Its bodies have SmallSize
// bytes, at LargePath as many as are configured. It has no service time, and
// cannot be set to another mode.
const Fixed Mode = "fixed"

// LargePath is where Fixed has its large body.
const LargePath = "/large"

// SmallSize is the size of the body that Fixed has elsewhere, in bytes.
const SmallSize = 1000

// fixed are whole responses.
type fixed struct{ small, large []byte }

func newFixed(size int) *fixed {
	response := func(size int) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
			size, strings.Repeat("x", size))
	}
	return &fixed{response(SmallSize), response(size)}
}

// serve answers connections.
func (f *fixed) serve(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_ = exchange.Answer(conn, f.respond)
		}()
	}
}

// respond returns the response to a request.
func (f *fixed) respond(request []byte) []byte {
	if bytes.HasPrefix(request, []byte("GET "+LargePath+" ")) {
		return f.large
	}
	return f.small
}
