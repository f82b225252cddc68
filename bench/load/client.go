//go:build linux

package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// client sends requests over connections that it keeps.
type client struct {
	Config
	mutex sync.Mutex
	idle  []*conn
}

type conn struct {
	net.Conn
	reader *bufio.Reader
	used   bool
	// kept is since when it is idle.
	kept time.Time
}

// keepTime is how long connections that are not needed are kept.
const keepTime = 5 * time.Second

// closed reports whether the other side has closed an idle connection.
func (c *conn) closed() bool {
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(socket uintptr) bool {
		_, _, err := syscall.Recvfrom(int(socket), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err != syscall.EAGAIN
		return true // whatever there is
	})
	return closed || err != nil
}

// postBody is the body of requests that have one.
const postBody = "some form data"

// maxRedials is how often a request is sent over another connection.
const maxRedials = 3

// send sends one request and notes what came of it.
func (c *client) send(start time.Time, sample *Sample) {
	err := c.try(start, sample)
	var lost *lostError
	for i := 0; i < maxRedials && errors.As(err, &lost) && (!lost.used || c.Method == http.MethodGet); i++ {
		sample.Redialed = true
		err = c.try(start, sample)
	}
	if err != nil {
		sample.Error = err.Error()
	}
}

// lostError is a connection that ended before anything came back: a new one in
// the queue of a listener that was closed, or one that had been used before
// and that the server closed in the same moment.
type lostError struct {
	error
	used bool
}

// try sends a request and reads the response.
func (c *client) try(start time.Time, sample *Sample) error {
	conn, err := c.connection(start.Add(c.Timeout), sample.Redialed)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return &lostError{fmt.Errorf("connecting: %w", shorten(err)), false}
	case err != nil:
		return fmt.Errorf("connecting: %w", shorten(err))
	}
	var request strings.Builder
	fmt.Fprintf(&request, "%s / HTTP/1.1\r\nHost: %s\r\n", c.Method, c.Address)
	if c.Method == http.MethodGet {
		request.WriteString("\r\n")
	} else {
		fmt.Fprintf(&request, "Content-Length: %d\r\n\r\n%s", len(postBody), postBody)
	}
	_, err = io.WriteString(conn, request.String())
	if err == nil {
		_, err = conn.reader.Peek(1)
	}
	if err != nil {
		_ = conn.Close()
		if isTimeout(err) {
			return errors.New("no answer in time")
		}
		return &lostError{fmt.Errorf("no answer: %w", shorten(err)), conn.used}
	}
	resp, err := http.ReadResponse(conn.reader, &http.Request{Method: c.Method})
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("bad answer: %w", shorten(err))
	}
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	sample.Backend = resp.Header.Get(c.Header)
	if err != nil || resp.Close || c.OneEach {
		_ = conn.Close()
	} else {
		conn.used = true
		c.keep(conn)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", resp.StatusCode)
	case err != nil:
		return fmt.Errorf("body: %w", shorten(err))
	case n != int64(c.Size):
		return fmt.Errorf("body of %d bytes", n)
	}
	return nil
}

// connection returns the one that was used last, of those that the server has
// not closed since, or a new one.
func (c *client) connection(deadline time.Time, fresh bool) (*conn, error) {
	for !fresh {
		last := c.take()
		if last == nil {
			break
		}
		if !last.closed() {
			return last, last.SetDeadline(deadline)
		}
		_ = last.Close()
	}
	dialer := net.Dialer{Deadline: deadline}
	dialed, err := dialer.Dial("tcp", c.Address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: dialed, reader: bufio.NewReader(dialed)}, dialed.SetDeadline(deadline)
}

// take takes the connection that was used last, if there is any.
func (c *client) take() *conn {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	last := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return last
}

func (c *client) keep(used *conn) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	used.kept = time.Now()
	c.idle = append(c.idle, used)
	for time.Since(c.idle[0].kept) > keepTime {
		_ = c.idle[0].Close()
		c.idle = c.idle[1:]
	}
}

func (c *client) close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// shorten leaves addresses out of an error, so that equal ones read equally.
func shorten(err error) error {
	var number syscall.Errno
	switch {
	case isTimeout(err):
		return errors.New("timeout")
	case errors.As(err, &number):
		return number
	}
	return err
}
