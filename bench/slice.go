//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

// How long a peer is measured, and how long while it warms up.
const (
	window     = 1200 * time.Millisecond
	warmWindow = 300 * time.Millisecond
)

// How long load goes on before the window, while connections are opened and the
// first requests are answered, and after it.
const (
	rampSmall = 250 * time.Millisecond
	rampLarge = 800 * time.Millisecond
	runOut    = 100 * time.Millisecond
)

// slice puts a load on a peer, and looks at a window of it.
func (t *track) slice(l lane, cell report.Cell, window time.Duration) (report.Slice, error) {
	ramp, path := rampSmall, "/"
	if cell.Size != backend.SmallSize {
		ramp, path = rampLarge, backend.LargePath
	}
	log := filepath.Join(t.dir, "requests")
	arguments := []string{
		"-D", fmt.Sprintf("%dms", (ramp + window + runOut).Milliseconds()),
		"-c", strconv.Itoa(cell.Connections), "-m", "1", "--log-file=" + log,
	}
	if !t.http2 {
		arguments = append(arguments, "--h1")
	}
	var output bytes.Buffer
	cmd := exec.Command("h2load", append(arguments, "http://"+l.address+path)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := t.pins.on(loadCores, cmd.Start); err != nil {
		return report.Slice{}, err
	}
	time.Sleep(ramp)
	from, used, err := t.now(l)
	if err == nil {
		time.Sleep(window)
	}
	to, usedAfter, errAfter := t.now(l)
	if err := cmd.Wait(); err != nil {
		return report.Slice{}, fmt.Errorf("h2load: %w: %s", err, output.Bytes())
	}
	if err != nil || errAfter != nil {
		return report.Slice{}, fmt.Errorf("reading its processor time: %w", errAfter)
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
	if s.Requests = len(took); s.Requests == 0 {
		return report.Slice{}, fmt.Errorf("no answer within %v: %s", window, output.Bytes())
	}
	elapsed, cpu := to.Sub(from), usedAfter-used
	s.Rate = float64(s.Requests) / elapsed.Seconds()
	s.CPU = float64(cpu.Nanoseconds()) / 1000 / float64(s.Requests+s.Errors)
	s.Busy = 100 * cpu.Seconds() / elapsed.Seconds()
	s.P50 = milliseconds(stats.Percentile(took, 50))
	s.P99 = milliseconds(stats.Percentile(took, 99))
	return s, nil
}

// now is the time, and the processor time that a peer has used.
func (t *track) now(l lane) (time.Time, time.Duration, error) {
	used, err := processorTime(l.peer.PID())
	return time.Now(), used, err
}
