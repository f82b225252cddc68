//go:build linux

package main

import (
	"fmt"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
)

// speedPeers are two pairs of ours and Caddy's own proxy, and others.
var speedPeers = []peer.Peer{peer.Ours, peer.StockChecks, peer.OursPassive, peer.StockPassive, peer.HAProxy, peer.NGINX}

// speedPairs are the pairs, which differ in nothing but the handler.
var speedPairs = []report.Pair{
	{Ours: peer.Ours.Name, Stock: peer.StockChecks.Name},
	{Ours: peer.OursPassive.Name, Stock: peer.StockPassive.Name},
}

const (
	speedBackends = 4
	// othersRounds is in how many rounds those are measured that are in no pair.
	othersRounds = 2
	largeSize    = 1_000_000
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
func speed(job speedJob, dir string) (speedResult, error) {
	var result speedResult
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
	long := timingOf(cell)
	rounds := roundsOf(cell)
	for _, l := range lanes {
		if _, err := t.slice(l, cell, timing{long.ramp, warm}); err != nil {
			return nil, fmt.Errorf("%s: %w", l.peer.Name, err)
		}
	}
	var all []report.Slice
	for round := range rounds {
		for _, l := range lanes {
			if round >= othersRounds && !paired(l.peer.Name) {
				continue
			}
			s, err := t.slice(l, cell, long)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.peer.Name, err)
			}
			s.Round = job.Repeat*rounds + round
			all = append(all, s)
		}
		slices.Reverse(lanes)
	}
	return all, nil
}

// roundsOf is how often a pair is measured between restarts: often, as the
// machine may be faster or slower for a while. Many connections take longer.
func roundsOf(cell report.Cell) int {
	if cell.Connections <= 64 {
		return 8
	}
	return 4
}

// paired reports whether a peer is one of a pair.
func paired(peer string) bool {
	return slices.ContainsFunc(speedPairs, func(p report.Pair) bool { return peer == p.Ours || peer == p.Stock })
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
