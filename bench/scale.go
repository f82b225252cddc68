//go:build linux

package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/exchange"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/stats"
)

const (
	// scaleInterval is that of checks.
	scaleInterval = 5 * time.Second
	// plainRounds is for how many of them the plain client is watched.
	plainRounds = 6
	// oursKeeps is up to how many upstreams our checks keep connections.
	oursKeeps = 1000
	// scaleReloads is how many reloads are timed.
	scaleReloads = 5
)

// scaleJob is one peer with a number of upstreams.
type scaleJob struct {
	Caddy, Peer string
	Upstreams   int
	// Rounds is for how many intervals checks are watched.
	Rounds int
}

// String is the job in words.
func (j scaleJob) String() string { return fmt.Sprintf("%s, %d upstreams", j.Peer, j.Upstreams) }

// scaled is what was measured of a job.
type scaled struct {
	report.ScaleRow
	// Heap is the live heap, in bytes.
	Heap float64
}

// scale watches a peer check its upstreams, and reloads it.
func scale(job scaleJob, dir string) (scaled, error) {
	// The files that are open during a reload of a peer that keeps connections.
	// Without the right to it, what there is has to do.
	const files = 1 << 16
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files})
	server, err := exchange.StartServer()
	if err != nil {
		return scaled{}, err
	}
	defer server.Kill()
	setup := peer.Setup{Caddy: job.Caddy, Dir: dir, Listen: peerAddress, Interval: scaleInterval}
	for i := range job.Upstreams {
		setup.Upstreams = append(setup.Upstreams, exchange.Address(i))
	}
	p, err := peer.Named(scalePeers, job.Peer).Start(setup)
	if err != nil {
		return scaled{}, err
	}
	defer p.Stop()
	s := scaled{ScaleRow: report.ScaleRow{Peer: job.Peer, Upstreams: job.Upstreams}}
	if err := s.awaitFirst(server); err != nil {
		return scaled{}, err
	}
	from := exchange.Now() + 1
	if s.CPU, err = busy(p.PID(), job.Rounds); err != nil {
		return scaled{}, err
	}
	seen, err := server.Seen(from, exchange.Now())
	if err != nil {
		return scaled{}, err
	}
	s.ProbesPer100ms = seen.Counts
	s.MaxToMean = maxToMean(s.ProbesPer100ms)
	used, err := p.Gauge()
	if err != nil {
		return scaled{}, err
	}
	s.Heap, s.RSS = used.Heap, used.RSS/1e6
	s.ReloadMs = timeReloads(p)
	p.Stop()
	s.ExchangeCPU, err = exchangeCPU(job.Upstreams, job.Peer != peer.Ours.Name || job.Upstreams <= oursKeeps)
	return s, err
}

// timeReloads returns how long a reload takes, in milliseconds, or
// report.ReloadFailed.
func timeReloads(p *peer.Process) float64 {
	var took []float64
	for range scaleReloads {
		begin := time.Now()
		if err := p.Reload(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return report.ReloadFailed
		}
		took = append(took, milliseconds(time.Since(begin)))
		time.Sleep(time.Second)
	}
	return stats.Median(took)
}

// awaitFirst returns when all upstreams have been checked once.
func (s *scaled) awaitFirst(server *exchange.Process) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		seen, err := server.Seen(0, 0)
		if err != nil {
			return err
		}
		if seen.Addresses >= s.Upstreams {
			return nil
		}
		time.Sleep(exchange.Window / 4)
	}
	return fmt.Errorf("%s: the first round of checks does not end", s.Peer)
}

// busy returns the processor time that a process uses for some intervals, in
// percent of one core.
func busy(pid, rounds int) (float64, error) {
	begin := time.Now()
	before, err := peer.Spent(pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(rounds) * scaleInterval)
	after, err := peer.Spent(pid)
	return 100 * float64(after-before) / float64(time.Since(begin)), err
}

// exchangeCPU returns what a plain client needs for the same exchanges, over
// connections that are kept or not.
func exchangeCPU(upstreams int, keep bool) (float64, error) {
	client, err := exchange.StartClient(upstreams, scaleInterval, keep)
	if err != nil {
		return 0, err
	}
	defer client.Kill()
	time.Sleep(scaleInterval) // until all are connected
	return busy(client.PID(), plainRounds)
}

// maxToMean returns by how much the highest count exceeds the mean.
func maxToMean(counts []int) float64 {
	most, sum := 0, 0
	for _, n := range counts {
		most = max(most, n)
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(most*len(counts)) / float64(sum)
}
