//go:build linux

// Package exchange makes plain HTTP exchanges and nothing else: a client that
// only asks, at a steady pace, and a server that only answers, for any number
// of upstreams at once, and counts. Each is a process of its own, so that the
// processor time that it uses can be told.
package exchange

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Command is the first argument that makes a program run Main with the others.
const Command = "exchange"

// Port is where the server listens, at all addresses.
const Port = 9000

// Address returns the address of one of many upstreams.
func Address(i int) string { return fmt.Sprintf("127.1.%d.%d:%d", i>>8, i&255, Port) }

// Main is the main function of the processes.
func Main(args []string) error {
	if args[0] == "server" {
		return serve()
	}
	return ask(args[1:])
}

// Process is a client or a server that runs.
type Process struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// start runs this program again, and returns when it says that it is ready.
func start(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, append([]string{Command}, args...)...)}
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.output.ReadString('\n'); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%v said %q: %w", args, line, err)
	}
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
