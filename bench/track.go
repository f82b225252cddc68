//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
)

// track is where peers are measured.
type track struct {
	dir      string
	http2    bool
	pins     *pins
	backends []*backend.Process
	lanes    []lane
}

// lane is a peer with its address.
type lane struct {
	peer    *peer.Process
	address string
}

// newTrack starts backends, and all peers before them.
func newTrack(job speedJob, dir string) (t *track, err error) {
	t = &track{dir: dir, http2: job.Protocol == "HTTP/2"}
	if t.pins, err = newPins(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: peers have no core to themselves:", err)
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	var upstreams []string
	for i := range speedBackends {
		cfg := backend.Config{Traffic: fmt.Sprintf("127.0.0.%d:%d", 11+i, trafficPort), Size: largeSize, Mode: backend.Fixed}
		upstreams = append(upstreams, cfg.Traffic)
		err := t.pins.on(loadCores, func() error {
			b, err := backend.Start(cfg)
			if err == nil {
				t.backends = append(t.backends, b)
			}
			return err
		})
		if err != nil {
			return t, err
		}
	}
	for i, p := range speedPeers {
		setup := peer.Setup{
			Caddy: job.Caddy, Dir: filepath.Join(dir, fmt.Sprint(i)), Listen: fmt.Sprintf("127.0.0.1:%d", 8080+i),
			Admin: fmt.Sprintf("127.0.0.1:%d", 2019+i), HTTP2: t.http2,
			Upstreams: upstreams, Interval: time.Second, Alone: true,
		}
		if err := os.Mkdir(setup.Dir, 0o700); err != nil {
			return t, err
		}
		err := t.pins.on(peerCore, func() error {
			started, err := p.Start(setup)
			if err == nil {
				t.lanes = append(t.lanes, lane{started, setup.Listen})
			}
			return err
		})
		if err != nil {
			return t, err
		}
	}
	time.Sleep(warmTime)
	return t, nil
}

// pinned reports whether all peers have their core.
func (t *track) pinned() bool {
	for _, l := range t.lanes {
		if !t.pins.hold(l.peer.PID()) {
			return false
		}
	}
	return true
}

// kill kills so many backends, if they are not dead yet.
func (t *track) kill(down int) {
	if len(t.backends) == speedBackends-down {
		return
	}
	for _, b := range t.backends[:down] {
		b.Kill()
	}
	t.backends = t.backends[down:]
	time.Sleep(noticeTime)
}

func (t *track) close() {
	for _, l := range t.lanes {
		l.peer.Stop()
	}
	for _, b := range t.backends {
		b.Kill()
	}
}
