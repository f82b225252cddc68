//go:build linux

package main

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// pins keep peers on one core, and everything else on the others, so that a
// peer is measured undisturbed by its load.
type pins struct {
	before, peers, rest unix.CPUSet
}

// newPins splits the cores that this process may use.
func newPins() (*pins, error) {
	p := new(pins)
	if err := unix.SchedGetaffinity(0, &p.before); err != nil {
		return nil, err
	}
	if p.before.Count() < 2 {
		return nil, errors.New("there is only one core")
	}
	first := 0
	for !p.before.IsSet(first) {
		first++
	}
	p.peers.Set(first)
	p.rest = p.before
	p.rest.Clear(first)
	return p, nil
}

// on lets do start processes, which are then on those cores. Without pins it
// just calls do.
func (p *pins) on(cores func(*pins) *unix.CPUSet, do func() error) error {
	if p == nil {
		return do()
	}
	runtime.LockOSThread() // whose affinity the processes inherit
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, cores(p)); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &p.before) }()
	return do()
}

func peerCore(p *pins) *unix.CPUSet  { return &p.peers }
func loadCores(p *pins) *unix.CPUSet { return &p.rest }

// hold reports whether the process is where peers belong.
func (p *pins) hold(pid int) bool {
	var is unix.CPUSet
	return p != nil && unix.SchedGetaffinity(pid, &is) == nil && is == p.peers
}
