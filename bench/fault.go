//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
)

// Requests a second.
const (
	getRate  = 250
	postRate = 50
)

const (
	// clientTimeout is how long clients wait if the scenario does not say.
	clientTimeout = 10 * time.Second
	// warmTime is how long the peer has to find its backends.
	warmTime = 2 * time.Second
	// phase is what the moment of a fault is drawn from: the peers check every
	// second.
	phase = time.Second
	// settleTime is how long the shares have to become equal again.
	settleTime = 20 * time.Second
)

// faultJob is one scenario with one peer.
type faultJob struct {
	Scenario string
	Peer     string
	Reloads  bool
	Caddy    string
}

// fault plays a scenario, under load.
func fault(job faultJob, dir string) (report.Outcome, error) {
	var (
		what = scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.Name == job.Scenario })]
		p    = peer.Named(append(slices.Clone(peers), what.others...), job.Peer)
	)
	s, err := newStage(p, job.Caddy, dir, job.Reloads)
	if err != nil {
		return report.Outcome{}, err
	}
	gets, posts, err := s.play(what)
	sent := s.close()
	if err != nil {
		return report.Outcome{}, err
	}
	return judge(what, s.bad, gets, posts, sent), nil
}

// play lets a scenario happen while requests are sent, and goes on until the
// backends have equal shares again.
func (s *stage) play(what scenario) (gets, posts []load.Sample, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		wait sync.WaitGroup
		seen shares
	)
	send := func(method string, rate int, into *[]load.Sample) {
		cfg := s.load(method, rate)
		cfg.Timeout = cmp.Or(what.timeout, clientTimeout)
		cfg.OneEach = method == http.MethodPost
		cfg.Done = seen.add
		wait.Go(func() { *into = load.Run(ctx, s.begin, cfg) })
	}
	time.Sleep(warmTime)
	send(http.MethodGet, cmp.Or(what.gets, getRate), &gets)
	send(http.MethodPost, cmp.Or(what.posts, postRate), &posts)
	time.Sleep(warmTime + rand.N(phase))
	if err := what.play(s); err != nil {
		cancel()
		wait.Wait()
		return nil, nil, fmt.Errorf("%s: %w", what.Name, err)
	}
	healed := time.Since(s.begin)
	for end := time.Now().Add(settleTime); time.Now().Before(end) && seen.equalSince(healed) == 0; {
		s.pause(shareWindow)
	}
	s.pause(time.Second)
	cancel()
	wait.Wait()
	return gets, posts, nil
}
