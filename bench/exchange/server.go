//go:build linux

package exchange

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/child"
)

// Window is the time in which requests are counted together.
const Window = 100 * time.Millisecond

// windows is how many windows there are room for: more than an hour.
const windows = 1 << 16

// Now is the number of the present window.
func Now() int64 { return time.Now().UnixNano() / int64(Window) }

// StartServer answers at Port, at all addresses.
func StartServer() (*Process, error) { return start("server") }

// Seen is what a server has been asked.
type Seen struct {
	// Counts are the requests of every window of a span of time.
	Counts []int
	// Addresses is how many addresses have been asked at all.
	Addresses int
}

// Seen returns what came in the windows from one to another.
func (p *Process) Seen(from, to int64) (seen Seen, err error) {
	if _, err := fmt.Fprintln(p.Input, from, to); err != nil {
		return Seen{}, err
	}
	line, err := p.Output.ReadBytes('\n')
	if err != nil {
		return Seen{}, err
	}
	return seen, json.Unmarshal(line, &seen)
}

// server counts requests by windows, and addresses that it was asked at.
type server struct {
	begin     int64
	counts    [windows]atomic.Int64
	asked     sync.Map // by address, as text
	addresses atomic.Int64
}

// note notes an address that is asked.
func (s *server) note(addr net.Addr) {
	if _, known := s.asked.LoadOrStore(addr.String(), true); !known {
		s.addresses.Add(1)
	}
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
			go func() {
				defer func() { _ = conn.Close() }()
				first := true
				_ = Answer(conn, func([]byte) []byte {
					if first {
						first = false
						s.note(conn.LocalAddr())
					}
					s.counts[(Now()-s.begin)%windows].Add(1)
					return response
				})
			}()
		}
	}()
	fmt.Println(child.Ready)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		var from, to int64
		if _, err := fmt.Sscan(asked.Text(), &from, &to); err != nil {
			return err
		}
		seen := Seen{Addresses: int(s.addresses.Load())}
		for window := from; window < to; window++ {
			seen.Counts = append(seen.Counts, int(s.counts[(window-s.begin)%windows].Load()))
		}
		if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
			return err
		}
	}
	return nil
}

// response is the answer to every request.
var response = []byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n")
