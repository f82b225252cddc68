//go:build linux

package backend

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/child"
)

// Config is how a backend is started.
type Config struct {
	// Traffic and Health are the addresses of its listeners.
	Traffic, Health string
	// Service is how long a request takes.
	Service time.Duration
	// Size is the size of response bodies, in bytes.
	Size int
	// Mode is the first one, Well if empty.
	Mode Mode
}

// Process is a backend in a process of its own.
type Process struct {
	Config
	*child.Process
}

// Command is the first argument that makes a program run Main with the others.
const Command = "backend"

// Start runs this program again as a backend, and returns when it listens.
func Start(cfg Config) (*Process, error) {
	if cfg.Mode == "" {
		cfg.Mode = Well
	}
	p, err := child.Start(Command, "-traffic", cfg.Traffic, "-health", cfg.Health,
		"-service", cfg.Service.String(), "-size", strconv.Itoa(cfg.Size), "-mode", string(cfg.Mode))
	if err != nil {
		return nil, err
	}
	return &Process{cfg, p}, nil
}

// Set changes the mode.
func (p *Process) Set(mode Mode) error {
	_, err := fmt.Fprintln(p.Input, mode)
	return err
}

// Freeze stops the process, Thaw lets it continue.
func (p *Process) Freeze() error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// End asks the process to end, and returns when it has ended.
func (p *Process) End() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Wait()
}
