//go:build linux

// Package child runs parts of this program as processes of their own.
package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Ready is what a child prints, as its first line, when it can be used.
const Ready = "ready"

// Process is a child.
type Process struct {
	cmd *exec.Cmd
	// Input is its standard input, Output what it prints after its first line.
	Input  io.WriteCloser
	Output *bufio.Reader
}

// Start runs this program again with those arguments, and returns when the
// child is ready.
func Start(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, args...)}
	p.cmd.Stderr = os.Stderr
	// A group of its own: when a shell that was left ends, the kernel wakes
	// what is frozen in the groups that it leaves behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.Input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.Output = bufio.NewReader(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.Output.ReadString('\n'); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%v said %q: %w", args, line, err)
	}
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait returns when the process has ended.
func (p *Process) Wait() error { return p.cmd.Wait() }
