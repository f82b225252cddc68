//go:build linux

package backend

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
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
	cmd   *exec.Cmd
	input io.WriteCloser
}

// Command is the first argument that makes a program run Main with the others.
const Command = "backend"

// Start runs this program again as a backend, and returns when it listens.
func Start(cfg Config) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if cfg.Mode == "" {
		cfg.Mode = Well
	}
	cmd := exec.Command(self, Command, "-traffic", cfg.Traffic, "-health", cfg.Health,
		"-service", cfg.Service.String(), "-size", strconv.Itoa(cfg.Size), "-mode", string(cfg.Mode))
	cmd.Stderr = os.Stderr
	p := &Process{Config: cfg, cmd: cmd}
	if p.input, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		p.Kill()
		return nil, fmt.Errorf("backend %s said %q: %w", cfg.Traffic, line, err)
	}
	return p, nil
}

// Set changes the mode.
func (p *Process) Set(mode Mode) error {
	_, err := fmt.Fprintln(p.input, mode)
	return err
}

// Freeze stops the process, Thaw lets it continue.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// End asks the process to end, and returns when it has ended.
func (p *Process) End() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }
