//go:build linux

package exchange

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
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

// Counts returns how many requests came in each window from one to another.
func (p *Process) Counts(from, to int64) ([]int, error) {
	if _, err := fmt.Fprintln(p.Input, from, to); err != nil {
		return nil, err
	}
	line, err := p.Output.ReadBytes('\n')
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
			go func() {
				defer func() { _ = conn.Close() }()
				_ = Answer(conn, func([]byte) []byte {
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
var response = []byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n")
