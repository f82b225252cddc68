//go:build linux

// Package exchange makes plain HTTP exchanges and nothing else: a client that
// only asks, at a steady pace, and a server that only answers, for any number
// of upstreams at once, and counts. Each is a process of its own, so that the
// processor time that it uses can be told.
package exchange

import (
	"fmt"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/child"
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
type Process struct{ *child.Process }

// start runs a client or a server.
func start(args ...string) (*Process, error) {
	p, err := child.Start(append([]string{Command}, args...)...)
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}
