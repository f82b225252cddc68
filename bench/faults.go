//go:build linux

package main

import (
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
)

// scenario is something that goes wrong with backends while they are used.
type scenario struct {
	Name string
	// What says what happens to whom.
	What string
	// play makes it happen, to the end.
	play func(*stage) error
	// dead says that a backend is beyond answering checks meanwhile.
	dead bool
	// still says that there is nothing to be reloaded meanwhile.
	still bool
	// timeout is how long clients wait, 10 s if it is zero.
	timeout time.Duration
	// gets and posts are how many of them are sent a second, getRate and
	// postRate if they are zero.
	gets, posts int
	// others are peers for this scenario alone.
	others []peer.Peer
}

// peers are those that every scenario is played with.
var peers = []peer.Peer{peer.Ours, peer.OursTuned, peer.Stock, peer.HAProxy, peer.NGINX}

var scenarios = []scenario{
	{
		Name: "kill", What: "one of three backends is killed (SIGKILL), and started again after 5 s",
		dead: true,
		play: kill,
	},
	{
		Name: "kill, 100 requests a second", What: "the same with 80 GET and 20 POST requests a second",
		dead: true, gets: 80, posts: 20,
		play: kill,
	},
	{
		Name: "hang", What: "one is frozen (SIGSTOP) for 7 s",
		dead: true,
		play: freeze,
	},
	{
		Name: "hang, clients wait 5 s", What: "the same with twice as many requests, and clients that give up after 5 s",
		dead: true, timeout: 5 * time.Second, gets: 2 * getRate, posts: 2 * postRate,
		others: []peer.Peer{peer.OursPatient},
		play:   freeze,
	},
	{
		Name: "drop", What: "packets to and from one are dropped for 7 s",
		dead: true,
		play: func(s *stage) error {
			if err := s.cutOff(0); err != nil {
				return err
			}
			s.outage(7 * time.Second)
			return s.reconnect(0)
		},
	},
	{
		Name: "errors", What: "one answers requests with status 500 for 5 s, while its health checks pass",
		play: misbehave(backend.Errors),
	},
	{
		Name: "slow", What: "one takes 100 times as long for 5 s, while its health checks pass",
		play: misbehave(backend.Slow),
	},
	{
		Name: "truncated", What: "one breaks its response bodies off for 5 s, while its health checks pass",
		play: misbehave(backend.Truncated),
	},
	{
		Name: "flapping", What: "one is killed for 2 s, back for 2 s, three times",
		dead: true,
		play: func(s *stage) error {
			for i := range 3 {
				if i > 0 {
					s.pause(2 * time.Second)
				}
				s.kill(0)
				s.outage(2 * time.Second)
				if err := s.restart(0, backend.Well); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name: "all down", What: "all three are killed, and started again after 3 s",
		dead: true,
		play: func(s *stage) error {
			for i := range s.backends {
				s.kill(i)
			}
			s.outage(3 * time.Second)
			for i := range s.backends {
				if err := s.restart(i, backend.Well); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name: "slow boot", What: "one is killed and started again at once, and answers 503 to requests and checks for the 40 s of its boot",
		dead: true,
		play: func(s *stage) error {
			s.kill(0)
			if err := s.restart(0, backend.Booting); err != nil {
				return err
			}
			s.outage(40 * time.Second)
			return s.heal(0)
		},
	},
	{
		Name: "rolling restart", What: "all three in turn end in an orderly way (SIGTERM), are started again after 1 s, and left alone for 3 s",
		dead: true,
		play: func(s *stage) error {
			for i := range s.backends {
				if i > 0 {
					s.pause(3 * time.Second)
				}
				if err := s.end(i); err != nil {
					return err
				}
				s.outage(time.Second)
				if err := s.restart(i, backend.Well); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name: "reload alone", What: "nothing goes wrong; the peer is reloaded five times in 5 s",
		still: true,
		play: func(s *stage) error {
			for range 5 {
				if err := s.peer.Reload(); err != nil {
					return err
				}
				s.pause(time.Second)
			}
			return nil
		},
	},
}

// kill kills a backend, and starts it again.
func kill(s *stage) error {
	s.kill(0)
	s.outage(5 * time.Second)
	return s.restart(0, backend.Well)
}

func freeze(s *stage) error {
	if err := s.freeze(0); err != nil {
		return err
	}
	s.outage(7 * time.Second)
	return s.thaw(0)
}

func misbehave(mode backend.Mode) func(*stage) error {
	return func(s *stage) error {
		if err := s.set(0, mode); err != nil {
			return err
		}
		s.outage(5 * time.Second)
		return s.heal(0)
	}
}
