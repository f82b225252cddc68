//go:build linux

package backend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
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
			_ = f.answer(conn)
		}()
	}
}

// answer answers the requests of a connection, which have no bodies.
func (f *fixed) answer(conn io.ReadWriter) error {
	buffer := make([]byte, 16<<10)
	unread := 0
	for unread < len(buffer) {
		n, err := conn.Read(buffer[unread:])
		if err != nil {
			return err
		}
		unread += n
		for {
			request, rest, whole := bytes.Cut(buffer[:unread], []byte("\r\n\r\n"))
			if !whole {
				break
			}
			response := f.small
			if bytes.HasPrefix(request, []byte("GET "+LargePath+" ")) {
				response = f.large
			}
			unread = copy(buffer, rest)
			if _, err := conn.Write(response); err != nil {
				return err
			}
		}
	}
	return errors.New("a request that is too long")
}
