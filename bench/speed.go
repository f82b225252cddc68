//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
)

// speedPeers are two pairs of ours and Caddy's own proxy, and others.
var speedPeers = []peer.Peer{peer.Ours, peer.StockChecks, peer.OursTuned, peer.Stock, peer.HAProxy, peer.NGINX}

const (
	speedBackends = 4
	// speedRounds is how often each peer is measured between restarts.
	speedRounds = 2
	largeSize   = 1_000_000
	// noticeTime is how long peers have to see that backends were killed; the
	// longest interval of their checks is 5 s.
	noticeTime = 8 * time.Second
)

// speedJob is one repetition with one protocol.
type speedJob struct {
	Protocol string
	Repeat   int
	Only     string
	Caddy    string
}

// speedResult is what it found.
type speedResult struct {
	Pinned bool
	Slices []report.Slice
}

// cells are the loads of a job, those with all backends up first.
func (j speedJob) cells() []report.Cell {
	var cells []report.Cell
	for _, down := range []int{0, speedBackends / 2} {
		for _, size := range []int{backend.SmallSize, largeSize} {
			for _, connections := range []int{64, 1000} {
				cells = append(cells, report.Cell{
					Protocol: j.Protocol, Connections: connections, Size: size, Up: speedBackends - down, Down: down,
				})
			}
		}
	}
	return cells
}

// measures reports whether the peer is to be measured in the cell.
func (j speedJob) measures(cell report.Cell, peer string) bool {
	matched, _ := regexp.MatchString(j.Only, fmt.Sprintf("%s: %s", cell, peer))
	return matched
}

// wanted reports whether there is anything to measure.
func (j speedJob) wanted() bool {
	return slices.ContainsFunc(j.cells(), func(c report.Cell) bool {
		return slices.ContainsFunc(speedPeers, func(p peer.Peer) bool { return j.measures(c, p.Name) })
	})
}

// String is the job in words.
func (j speedJob) String() string { return fmt.Sprintf("%s, repetition %d", j.Protocol, j.Repeat+1) }

// speed measures all peers, which run all the time, in turn.
func speed(job speedJob) (speedResult, error) {
	var result speedResult
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return result, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := allowFiles(); err != nil {
		return result, err
	}
	track, err := newTrack(job, dir)
	if err != nil {
		return result, err
	}
	defer track.close()
	result.Pinned = track.pinned()
	for _, cell := range job.cells() {
		if cell.Down > 0 {
			track.kill(cell.Down)
		}
		found, err := track.measure(job, cell)
		if err != nil {
			return result, fmt.Errorf("%s: %w", cell, err)
		}
		result.Slices = append(result.Slices, found...)
	}
	return result, nil
}

// measure measures a cell: every peer once to warm up, then in rounds, forth
// and back.
func (t *track) measure(job speedJob, cell report.Cell) ([]report.Slice, error) {
	var lanes []lane
	for _, l := range t.lanes {
		if job.measures(cell, l.peer.Name) {
			lanes = append(lanes, l)
		}
	}
	for _, l := range lanes {
		if _, err := t.slice(l, cell, warmWindow); err != nil {
			return nil, fmt.Errorf("%s: %w", l.peer.Name, err)
		}
	}
	var all []report.Slice
	for round := range speedRounds {
		for _, l := range lanes {
			s, err := t.slice(l, cell, window)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.peer.Name, err)
			}
			s.Round = job.Repeat*speedRounds + round
			all = append(all, s)
		}
		slices.Reverse(lanes)
	}
	return all, nil
}

// allowFiles lets this process, and those that it starts, open as many files as
// they can.
func allowFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

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
