package integration

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	weakrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Tests of what goes on through Caddy for long, while an upstream flips and
// while configs are reloaded. What passes through at all is shown in
// transport_test.go; a stream on an upstream that goes down for good is in
// TestCase_c6420.

// flips is how often an upstream has to go down while something goes on.
const flips = 10

// A stage is a pool of three upstreams, the third of which flips.
type stage struct {
	*caddyProcess
	addr      string // of the site
	url       string
	sites     string
	global    string
	addresses []string
	// flipping is set while the third one flips.
	flipping atomic.Bool
	// over is closed when the streams may end.
	over chan struct{}
}

// newStage starts Caddy with three upstreams that serve with a handler.
func newStage(t *testing.T, serve func(s *stage) http.HandlerFunc, options ...string) *stage {
	t.Helper()
	s := &stage{addr: freeAddr(t), global: "servers {\n\t\tprotocols h1 h2c\n\t}", over: make(chan struct{})}
	s.url = "http://" + s.addr
	handler := serve(s)
	for i := range 3 {
		ln := listenStable(t)
		s.addresses = append(s.addresses, ln.Addr().String())
		var checks atomic.Int64
		server := &http.Server{ErrorLog: noLog, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/health":
				handler(w, r)
			case i == 2 && s.flipping.Load() && checks.Add(1)%2 == 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { _ = server.Serve(ln) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	s.sites = site(s.addr, to(strings.Join(s.addresses, " "), append(options, flipping)...))
	s.caddyProcess = launch(t, s.sites, s.global)
	s.waitStatus(t, "up", s.addresses...)
	return s
}

// downs returns how often the third upstream has gone down.
func (s *stage) downs() int {
	return strings.Count(s.log.String(), `"msg":"upstream is down"`)
}

// waitFlips waits until the third upstream has flipped often.
func (s *stage) waitFlips(t *testing.T) {
	t.Helper()
	before := s.downs()
	eventually(t, "it has flipped often", func() bool { return s.downs() >= before+flips })
}

// An act is one of the things that go on at the same time.
type act interface {
	// round goes on; the rounds are numbered from 0.
	round(i int) error
	// end ends it, and looks whether everything has come.
	end() error
}

// play opens the acts, has the third upstream flip, and reloads Caddy that
// many times while they go on. Each has at least so many rounds. Nothing may
// go wrong.
func (s *stage) play(t *testing.T, reloads, rounds int, acts ...act) {
	t.Helper()
	s.flipping.Store(true)
	var running sync.WaitGroup
	for n, a := range acts {
		running.Go(func() {
			for i := 0; ; i++ {
				if i >= rounds {
					select {
					case <-s.over:
						if err := a.end(); err != nil {
							t.Errorf("act %d, the end after %d rounds: %v", n, i, err)
						}
						return
					default:
					}
				}
				if err := a.round(i); err != nil {
					t.Errorf("act %d, round %d: %v", n, i, err)
					return
				}
			}
		})
	}
	s.waitFlips(t)
	for range reloads {
		if err := s.load("text/caddyfile", s.caddyfile(s.sites, s.global)); err != nil {
			t.Error(err)
		}
		s.waitFlips(t)
	}
	eventually(t, "all upstreams have served", func() bool {
		return !slices.ContainsFunc(s.upstreams(t), func(row admin.Upstream) bool { return row.Requests == 0 })
	})
	close(s.over)
	running.Wait()
	s.waitIdle(t)
	requests := uint64(0)
	for _, row := range s.upstreams(t) {
		if row.Errors > 0 {
			t.Errorf("%+v", row)
		}
		requests += row.Requests
	}
	t.Logf("%d requests, gone down %d times", requests, s.downs())
}

// inFlight returns how many requests are under way at each upstream.
func (s *stage) inFlight(t *testing.T) (list []int) {
	t.Helper()
	for _, address := range s.addresses {
		list = append(list, s.upstream(t, address).InFlight)
	}
	return list
}

// WebSockets on all upstreams, the one that flips included, lose no message
// and no byte, over two reloads, and end in order.
func TestStreamsWebSocket(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(*stage) http.HandlerFunc { return echoWebSocket }, "stream_close_delay 1m")
	var acts []act
	for range 6 {
		acts = append(acts, openWebSocket(t, s.addr))
	}
	if got := s.inFlight(t); fmt.Sprint(got) != "[2 2 2]" {
		t.Errorf("streams under way: %v", got)
	}
	s.play(t, 2, 300, acts...)
}

// Frames of WebSocket, RFC 6455.
const (
	webSocketBinary = 0x2
	webSocketClose  = 0x8
	webSocketGUID   = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + webSocketGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// writeFrame writes a frame with all of a message, masked as a client's are.
func writeFrame(w io.Writer, opcode byte, message []byte, masked bool) error {
	head := []byte{0x80 | opcode, 0}
	switch n := len(message); {
	case n < 126:
		head[1] = byte(n)
	case n < 1<<16:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	default:
		head[1] = 127
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	message = bytes.Clone(message)
	if masked {
		head[1] |= 0x80
		mask := binary.BigEndian.AppendUint32(nil, weakrand.Uint32())
		head = append(head, mask...)
		for i := range message {
			message[i] ^= mask[i%4]
		}
	}
	_, err := w.Write(append(head, message...))
	return err
}

// readFrame reads a frame, and says whether it was masked.
func readFrame(r io.Reader) (opcode byte, message []byte, masked bool, err error) {
	head := make([]byte, 2, 14)
	if _, err = io.ReadFull(r, head); err != nil {
		return 0, nil, false, err
	}
	size, masked := int(head[1]&0x7f), head[1]&0x80 != 0
	more := map[int]int{126: 2, 127: 8}[size]
	mask := 0
	if masked {
		mask = 4
	}
	rest := make([]byte, more+mask)
	if _, err = io.ReadFull(r, rest); err != nil {
		return 0, nil, false, err
	}
	switch more {
	case 2:
		size = int(binary.BigEndian.Uint16(rest))
	case 8:
		size = int(binary.BigEndian.Uint64(rest))
	}
	message = make([]byte, size)
	if _, err = io.ReadFull(r, message); err != nil {
		return 0, nil, false, err
	}
	for i := range message {
		if masked {
			message[i] ^= rest[more+i%4]
		}
	}
	return head[0] & 0x0f, message, masked, nil
}

// echoWebSocket sends every message back.
func echoWebSocket(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		acceptKey(r.Header.Get("Sec-WebSocket-Key")))
	for {
		opcode, message, masked, err := readFrame(buffered)
		if err != nil || !masked || writeFrame(conn, opcode, message, false) != nil || opcode == webSocketClose {
			return
		}
	}
}

// A webSocket is a client's end.
type webSocket struct {
	conn net.Conn
	in   *bufio.Reader
}

func openWebSocket(t testing.TB, addr string) *webSocket {
	t.Helper()
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	conn := rawRequest(t, "http://"+addr, "GET /ws HTTP/1.1\r\nHost: "+addr+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: "+key+"\r\nSec-WebSocket-Version: 13\r\n\r\n")
	t.Cleanup(func() { _ = conn.Close() })
	ws := &webSocket{conn, bufio.NewReader(conn)}
	resp, err := http.ReadResponse(ws.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != acceptKey(key) {
		t.Fatalf("got %+v, %v", resp, err)
	}
	return ws
}

// exchange sends a message and looks that it comes back.
func (ws *webSocket) exchange(opcode byte, message []byte) error {
	_ = ws.conn.SetDeadline(time.Now().Add(patience))
	if err := writeFrame(ws.conn, opcode, message, true); err != nil {
		return err
	}
	got, back, masked, err := readFrame(ws.in)
	if err == nil && (got != opcode || masked || !bytes.Equal(back, message)) {
		err = fmt.Errorf("sent %d bytes, got opcode %d with %d bytes", len(message), got, len(back))
	}
	return err
}

func (ws *webSocket) round(i int) error {
	size := weakrand.IntN(1000)
	if i%20 == 0 {
		size = 1<<16 + i
	}
	message := make([]byte, size)
	_, _ = rand.Read(message)
	return ws.exchange(webSocketBinary, message)
}

func (ws *webSocket) end() error {
	if err := ws.exchange(webSocketClose, []byte{3, 232}); err != nil {
		return err
	}
	if rest, err := io.ReadAll(ws.in); err != nil || len(rest) > 0 {
		return fmt.Errorf("after the last frame: %d bytes, %w", len(rest), err)
	}
	return ws.conn.Close()
}

// Server-sent events come one after the other, none left out, to the last one,
// over two reloads.
func TestStreamsServerSentEvents(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			ticker := time.NewTicker(2 * time.Millisecond)
			defer ticker.Stop()
			for i := 0; ; i++ {
				fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, strings.Repeat("x", i%300))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-s.over:
					if i > 1000 {
						fmt.Fprintf(w, "event: end\ndata: %d\n\n", i+1)
						return
					}
				case <-r.Context().Done():
					return
				case <-ticker.C:
				}
			}
		}
	})
	var acts []act
	for range 6 {
		acts = append(acts, openEvents(t, s.url))
	}
	if got := s.inFlight(t); fmt.Sprint(got) != "[2 2 2]" {
		t.Errorf("streams under way: %v", got)
	}
	s.play(t, 2, 500, acts...)
}

// events is a client's end of a stream of events.
type events struct {
	*bufio.Scanner
	seen int
}

func openEvents(t *testing.T, url string) *events {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(4*patience, func() { _ = resp.Body.Close() })
	t.Cleanup(func() { timer.Stop(); _ = resp.Body.Close() })
	return &events{Scanner: bufio.NewScanner(resp.Body)}
}

// next reads the next event.
func (e *events) next() (string, error) {
	var lines []string
	for e.Scan() {
		if e.Text() == "" {
			return strings.Join(lines, "\n"), nil
		}
		lines = append(lines, e.Text())
	}
	return "", fmt.Errorf("no event: %w", errors.Join(e.Err(), io.ErrUnexpectedEOF))
}

func (e *events) round(int) error {
	got, err := e.next()
	if want := fmt.Sprintf("id: %d\ndata: %s", e.seen, strings.Repeat("x", e.seen%300)); err == nil && got != want {
		err = fmt.Errorf("got %q, want %q", got, want)
	}
	e.seen++
	return err
}

func (e *events) end() error {
	for {
		got, err := e.next()
		switch {
		case err != nil:
			return err
		case got == fmt.Sprintf("event: end\ndata: %d", e.seen):
			if e.Scan() || e.Err() != nil {
				return fmt.Errorf("after the end: %q, %w", e.Text(), e.Err())
			}
			return nil
		case !strings.HasPrefix(got, fmt.Sprintf("id: %d\n", e.seen)):
			return fmt.Errorf("event %q after %d", got, e.seen)
		}
		e.seen++
	}
}

// requests is an act of one request after the other.
type requests func(i int) error

func (r requests) round(i int) error { return r(i) }
func (r requests) end() error        { return nil }

// Trailers of requests and responses belong to their message, over HTTP/1.1
// and h2c.
func TestStreamsTrailers(t *testing.T) {
	t.Parallel()
	for version, options := range map[string]string{"1.1": "", "h2c": "transport http {\nversions h2c\n}"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(*stage) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Trailer", "X-Down")
					body, _ := io.ReadAll(r.Body)
					_, _ = w.Write(body)
					_ = http.NewResponseController(w).Flush()
					w.Header().Set("X-Down", "back "+r.Trailer.Get("X-Up"))
				}
			}, options)
			var acts []act
			for n := range 4 {
				client := &http.Client{Timeout: patience, Transport: new(http.Transport)}
				acts = append(acts, requests(func(i int) error {
					text := fmt.Sprint(n, " ", i)
					req, err := http.NewRequest(http.MethodPost, s.url, io.NopCloser(strings.NewReader(text)))
					if err != nil {
						return err
					}
					req.Trailer = http.Header{"X-Up": {text}}
					resp, err := client.Do(req)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					if err != nil || string(body) != text || resp.Trailer.Get("X-Down") != "back "+text {
						return fmt.Errorf("got %q, trailers %v, %w", body, resp.Trailer, err)
					}
					return nil
				}))
			}
			s.play(t, 0, 100, acts...)
		})
	}
}

// Large bodies come whole and unchanged, in both directions at once.
func TestStreamsLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 3<<20 + 1
	for version, options := range map[string]string{"1.1": "", "h2c": "transport http {\nversions h2c\n}"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(*stage) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).EnableFullDuplex()
					_, _ = io.Copy(w, r.Body)
				}
			}, options)
			var acts []act
			for range 3 {
				sent := make([]byte, size)
				_, _ = rand.Read(sent)
				transport := &http.Transport{Protocols: new(http.Protocols)}
				transport.Protocols.SetUnencryptedHTTP2(true)
				client := &http.Client{Timeout: patience, Transport: transport}
				acts = append(acts, requests(func(i int) error {
					var body io.Reader = bytes.NewReader(sent)
					if i%2 == 1 {
						body = io.NopCloser(body) // without a length
					}
					resp, err := client.Post(s.url, "application/octet-stream", body)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					got, err := io.ReadAll(resp.Body)
					if err != nil || !bytes.Equal(got, sent) {
						return fmt.Errorf("sent %d bytes, got %d, %w", len(sent), len(got), err)
					}
					return nil
				}))
			}
			s.play(t, 0, 4, acts...)
		})
	}
}
