//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

// timing is how long the parts of a slice take.
type timing struct {
	// ramp is when connections are opened and the first requests are answered,
	// window is what is looked at.
	ramp, window time.Duration
}

// runOut is how long load goes on after the window.
const runOut = 100 * time.Millisecond

// patience is how long h2load may take to end. It never does if one of its
// connections is never answered.
const patience = 5 * time.Second

// timingOf gives many connections longer, which have to be opened on both sides
// of the peer first. A thousand large bodies at a time take about a second
// each.
func timingOf(cell report.Cell) timing {
	const ms = time.Millisecond
	few, small := cell.Connections <= 64, cell.Size == backend.SmallSize
	switch {
	case few && small:
		return timing{150 * ms, 600 * ms}
	case few:
		return timing{250 * ms, 600 * ms}
	case small:
		return timing{500 * ms, 1000 * ms}
	}
	return timing{1000 * ms, 1600 * ms}
}

// warm is the window while a peer warms up.
const warm = 100 * time.Millisecond

// slice puts a load on a peer, and looks at a window of it.
func (t *track) slice(l lane, cell report.Cell, long timing) (report.Slice, error) {
	path := "/"
	if cell.Size != backend.SmallSize {
		path = backend.LargePath
	}
	log := filepath.Join(t.dir, "requests")
	duration := long.ramp + long.window + runOut
	arguments := []string{
		"-D", fmt.Sprintf("%dms", duration.Milliseconds()),
		"-c", strconv.Itoa(cell.Connections), "-m", "1", "--log-file=" + log,
	}
	if !t.http2 {
		arguments = append(arguments, "--h1")
	}
	var output bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), duration+patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "h2load", append(arguments, "http://"+l.address+path)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := t.pins.on(loadCores, cmd.Start); err != nil {
		return report.Slice{}, err
	}
	time.Sleep(long.ramp)
	from, used, err := t.now(l)
	if err == nil {
		time.Sleep(long.window)
	}
	to, usedAfter, errAfter := t.now(l)
	if err := cmd.Wait(); ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "bench: h2load does not end: %s, %s\n", cell, l.peer.Name)
		return report.Slice{Cell: cell, Peer: l.peer.Name}, nil
	} else if err != nil {
		return report.Slice{}, fmt.Errorf("h2load: %w: %s", err, output.Bytes())
	}
	if err != nil || errAfter != nil {
		return report.Slice{}, fmt.Errorf("reading its processor time: %w", errors.Join(err, errAfter))
	}
	file, err := os.Open(log)
	if err != nil {
		return report.Slice{}, err
	}
	defer func() { _ = file.Close() }()
	requests, err := load.ParseLog(file)
	if err != nil {
		return report.Slice{}, err
	}
	s := report.Slice{Cell: cell, Peer: l.peer.Name}
	var took []time.Duration
	for _, r := range requests {
		switch end := r.Start.Add(r.Took); {
		case end.Before(from) || end.After(to):
		case r.Status == 200:
			took = append(took, r.Took)
		default:
			s.Errors++
		}
	}
	s.Requests = len(took)
	elapsed, cpu := to.Sub(from), usedAfter-used
	s.Busy = 100 * cpu.Seconds() / elapsed.Seconds()
	if s.Requests > 0 {
		s.Rate = float64(s.Requests) / elapsed.Seconds()
		s.CPU = float64(cpu.Nanoseconds()) / 1000 / float64(s.Requests+s.Errors)
		s.P50 = milliseconds(stats.Percentile(took, 50))
		s.P99 = milliseconds(stats.Percentile(took, 99))
	}
	return s, nil
}

// now is the time, and the processor time that a peer has used.
func (t *track) now(l lane) (time.Time, time.Duration, error) {
	used, err := peer.Spent(l.peer.PID())
	return time.Now(), used, err
}
