//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/wire"
)

// Ports of backends, each of which has an address of its own.
const (
	trafficPort = 9000
	healthPort  = 9001
)

// peerAddress is where a peer listens that is alone in its sandbox.
const peerAddress = "127.0.0.1:8080"

// stage is where a fault happens: a peer before three backends.
type stage struct {
	peer     *peer.Process
	backends []*backend.Process
	watchers []*wire.Watcher
	begin    time.Time
	reloads  bool

	// bad are the times in which each backend was not well.
	bad [][]interval
}

// interval is a time, since the stage's beginning. Until it has ended, to is
// zero.
type interval struct{ from, to time.Duration }

const (
	backendCount = 3
	serviceTime  = 30 * time.Millisecond
	bodySize     = 1000
)

// newStage starts backends and a peer.
func newStage(p peer.Peer, caddy, dir string, reloads bool) (*stage, error) {
	s := &stage{begin: time.Now(), reloads: reloads, bad: make([][]interval, backendCount)}
	setup := peer.Setup{
		Caddy: caddy, Dir: dir, Listen: peerAddress,
		HealthPort: fmt.Sprint(healthPort), Interval: time.Second,
	}
	for i := range backendCount {
		address := netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + i)})
		b, err := backend.Start(backend.Config{
			Traffic: fmt.Sprintf("%s:%d", address, trafficPort), Health: fmt.Sprintf("%s:%d", address, healthPort),
			Service: serviceTime, Size: bodySize,
		})
		if err != nil {
			return nil, err
		}
		s.backends = append(s.backends, b)
		setup.Upstreams = append(setup.Upstreams, b.Traffic)
		w, err := wire.Watch(address, s.begin)
		if err != nil {
			return nil, fmt.Errorf("watching packets: %w", err)
		}
		s.watchers = append(s.watchers, w)
	}
	var err error
	s.peer, err = p.Start(setup)
	return s, err
}

// load is what clients send to the peer.
func (s *stage) load(method string, rate int) load.Config {
	return load.Config{
		Address: peerAddress, Method: method, Rate: rate, Timeout: clientTimeout,
		Header: backend.Header, Size: bodySize,
	}
}

// pause lets time go by, in which the peer is reloaded now and then if it is
// to be.
func (s *stage) pause(d time.Duration) {
	end := time.Now().Add(d)
	const first, gap = 700 * time.Millisecond, 2500 * time.Millisecond
	if s.reloads {
		for at := first; at < d; at += gap {
			time.Sleep(time.Until(end.Add(at - d)))
			if err := s.peer.Reload(); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
		}
	}
	time.Sleep(time.Until(end))
}

// outage lets a fault last for that long, and up to a second longer: the peers
// check every second, and some of them in step with the beginning of the fault.
func (s *stage) outage(d time.Duration) { s.pause(d + rand.N(phase)) }

// sicken notes that a backend is not well from now on, recover that it is
// again.
func (s *stage) sicken(i int) {
	s.bad[i] = append(s.bad[i], interval{from: time.Since(s.begin)})
}

func (s *stage) recover(i int) {
	s.bad[i][len(s.bad[i])-1].to = time.Since(s.begin)
}

func (s *stage) kill(i int) {
	s.sicken(i)
	s.backends[i].Kill()
}

// end lets the backend finish what it has begun.
func (s *stage) end(i int) error {
	s.sicken(i)
	return s.backends[i].End()
}

func (s *stage) restart(i int, mode backend.Mode) error {
	cfg := s.backends[i].Config
	cfg.Mode = mode
	b, err := backend.Start(cfg)
	if err != nil {
		return err
	}
	s.backends[i] = b
	if mode == backend.Well {
		s.recover(i)
	}
	return nil
}

func (s *stage) set(i int, mode backend.Mode) error {
	s.sicken(i)
	return s.backends[i].Set(mode)
}

func (s *stage) heal(i int) error {
	err := s.backends[i].Set(backend.Well)
	s.recover(i)
	return err
}

func (s *stage) freeze(i int) error {
	s.sicken(i)
	return s.backends[i].Freeze()
}

func (s *stage) thaw(i int) error {
	err := s.backends[i].Thaw()
	s.recover(i)
	return err
}

// cutOff drops the packets of a backend when they arrive.
func (s *stage) cutOff(i int) error {
	address := netip.MustParseAddrPort(s.backends[i].Traffic).Addr()
	s.sicken(i)
	return nft(fmt.Sprintf(`table ip bench {
		chain in {
			type filter hook input priority 0;
			ip daddr %[1]s drop
			ip saddr %[1]s drop
		}
	}`, address))
}

func (s *stage) reconnect(i int) error {
	err := nft("delete table ip bench")
	s.recover(i)
	return err
}

func nft(rules string) error {
	output, err := exec.Command("nft", rules).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, output)
	}
	return nil
}

// close ends everything, and returns what was sent to the ports of each
// backend.
func (s *stage) close() []map[uint16][]time.Duration {
	s.peer.Stop()
	var sent []map[uint16][]time.Duration
	for i, b := range s.backends {
		b.Kill()
		sent = append(sent, s.watchers[i].Close())
	}
	return sent
}

// missing says which peers, and which other programs, are needed and not there.
func missing(peers []peer.Peer, programs ...string) error {
	names := peer.Missing(peers)
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			names = append(names, program)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return errors.New("not installed: " + fmt.Sprint(names) + "; on Debian: apt-get install haproxy nginx-light nftables nghttp2-client")
}
