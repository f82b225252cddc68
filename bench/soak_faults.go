//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
)

// soakFault is what may happen to one backend for a while. Nothing is among
// them that a client is to see: with default options an answer of status 500
// is passed on, and so is a body that breaks off.
type soakFault struct {
	name        string
	least, most time.Duration
	begin, end  func(s *stage, i int) error
}

var soakFaults = []soakFault{
	{
		name: "killed", least: 100 * time.Millisecond, most: 5 * time.Second,
		begin: func(s *stage, i int) error { s.kill(i); return nil },
		end:   revive,
	},
	{
		name: "ended in an orderly way", least: 100 * time.Millisecond, most: 5 * time.Second,
		begin: (*stage).end, end: revive,
	},
	{
		name: "frozen", least: 2 * time.Second, most: 4 * time.Second,
		begin: (*stage).freeze, end: (*stage).thaw,
	},
	{
		name: "cut off", least: 2 * time.Second, most: 4 * time.Second,
		begin: (*stage).cutOff, end: (*stage).reconnect,
	},
	{
		name: "slow", least: time.Second, most: 4 * time.Second,
		begin: func(s *stage, i int) error { return s.set(i, backend.Slow) },
		end:   (*stage).heal,
	},
}

func revive(s *stage, i int) error { return s.restart(i, backend.Well) }

// fail lets something happen to some backend again and again.
func (s *soaking) fail(ctx context.Context, random *rand.Rand) error {
	for wait(ctx, between(random, time.Second, 10*time.Second)) {
		what, i := soakFaults[random.IntN(len(soakFaults))], random.IntN(len(s.backends))
		s.calm.Lock()
		err := s.play(ctx, what, i, between(random, what.least, what.most))
		s.calm.Unlock()
		if err != nil {
			return fmt.Errorf("%s: %w", what.name, err)
		}
	}
	return nil
}

// play lets something happen to a backend for a time.
func (s *soaking) play(ctx context.Context, what soakFault, i int, lasts time.Duration) error {
	now, after := what.name, "after "+what.name
	s.fault.Store(&now)
	if err := what.begin(s.stage, i); err != nil {
		return err
	}
	wait(ctx, lasts)
	err := what.end(s.stage, i)
	s.fault.Store(&after)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.data.Faults++
	return err
}
