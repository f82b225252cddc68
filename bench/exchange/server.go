//go:build linux

package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Window is the time in which requests are counted together.
const Window = 100 * time.Millisecond

// windows is how many windows there are room for: more than an hour.
const windows = 1 << 16

// Now is the number of the present window.
func Now() int64 { return time.Now().UnixNano() / int64(Window) }

// StartServer answers at Port, at all addresses.
func StartServer() (*Process, error) { return start("server") }

// Counts returns how many requests came in each window from one to another.
func (p *Process) Counts(from, to int64) ([]int, error) {
	if _, err := fmt.Fprintln(p.input, from, to); err != nil {
		return nil, err
	}
	line, err := p.output.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var counts []int
	return counts, json.Unmarshal(line, &counts)
}

// server counts requests by windows.
type server struct {
	begin  int64
	counts [windows]atomic.Int64
}

// serve is the main function of the server. It ends with its input.
func serve() error {
	listener, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", Port))
	if err != nil {
		return err
	}
	s := &server{begin: Now()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				fmt.Fprintln(os.Stderr, "plain server:", err)
				time.Sleep(Window)
				continue
			}
			go s.answer(conn)
		}
	}()
	fmt.Println("ready")
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		var from, to int64
		if _, err := fmt.Sscan(asked.Text(), &from, &to); err != nil {
			return err
		}
		counts := make([]int64, 0, to-from)
		for window := from; window < to; window++ {
			counts = append(counts, s.counts[(window-s.begin)%windows].Load())
		}
		if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
			return err
		}
	}
	return nil
}

// response is the answer to every request.
const response = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n"

// answer answers the requests of a connection, which have no bodies, until the
// other side closes it.
func (s *server) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	buffer := make([]byte, 1024)
	for filled := 0; ; {
		n, err := conn.Read(buffer[filled:])
		if err != nil {
			return
		}
		filled += n
		end := bytes.Index(buffer[:filled], []byte("\r\n\r\n"))
		if end < 0 {
			if filled == len(buffer) {
				return
			}
			continue
		}
		filled = copy(buffer, buffer[end+4:filled])
		s.counts[(Now()-s.begin)%windows].Add(1)
		if _, err := io.WriteString(conn, response); err != nil {
			return
		}
	}
}
