//go:build linux

// Command bench measures this load balancer beside Caddy's own proxy, HAProxy
// and NGINX, and writes what it has found to RESULTS.md. It needs Linux, and
// root or user namespaces.
//
//	go run ./bench            all of it, hours
//	go run ./bench faults     what clients see when backends fail
//	go run ./bench speed      requests a second, processor time, latency
//	go run ./bench scale      10 to 10,000 upstreams
//	go run ./bench soak       random faults and reloads for a long time
//	go run ./bench report     RESULTS.md anew from the figures in data
//
// The experiments run in network namespaces of their own, with backends that
// are processes of their own:
//
//	load --> peer --> backend (killed, frozen, cut off, made to misbehave)
//	            \---> backend    ^ wire: what is sent to a backend, dead or not
//	             \--> backend
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/exchange"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// options are what the command line says.
type options struct {
	folder string
	only   string
	repeat int
	lanes  int
	long   time.Duration
	seed   uint64
	rounds int
	caddy  string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == backend.Command {
		return backend.Main(args[1:])
	}
	if len(args) > 1 && args[0] == exchange.Command {
		return exchange.Main(args[1:])
	}
	if len(args) > 1 && args[0] == sandbox.Command {
		return work(args[1])
	}
	what := []string{"faults", "speed", "scale", "soak"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[:1], args[1:]
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.folder, "folder", "bench", "where RESULTS.md and its data are")
	flags.StringVar(&o.only, "only", "", "regular expression: only what has such a name; of faults, the rest stays as it was measured before")
	flags.IntVar(&o.repeat, "repeat", 3, "how many times everything is measured")
	flags.IntVar(&o.lanes, "lanes", 1, "how many faults are measured at a time")
	flags.DurationVar(&o.long, "for", 30*time.Minute, "how long the soak lasts")
	flags.Uint64Var(&o.seed, "seed", 0, "what the soak's faults are drawn from; 0 draws that, too")
	flags.IntVar(&o.rounds, "rounds", 20, "how many rounds of checks of many upstreams are watched; 20 results of each are remembered")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.folder, "data"), 0o755); err != nil {
		return err
	}
	if what[0] != "report" {
		temp, err := os.MkdirTemp("", "bench")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temp) }()
		o.caddy = filepath.Join(temp, "caddy")
		if err := build(o.caddy); err != nil {
			return err
		}
	}
	for _, name := range what {
		experiment, ok := experiments[name]
		if !ok {
			return fmt.Errorf("no experiment is called %q", name)
		}
		if err := experiment(o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := report.Write(o.folder); err != nil {
			return err
		}
	}
	return nil
}

// experiments are what can be measured.
var experiments = map[string]func(options) error{
	"faults": measureFaults,
	"speed":  measureSpeed,
	"report": func(options) error { return nil }, // is made after every experiment
	"scale":  measureScale,
	"soak":   measureSoak,
}

// work does one job in the sandbox that this process is.
func work(name string) error {
	switch name {
	case "faults":
		return sandbox.Work(fault)
	case "speed":
		return sandbox.Work(speed)
	case "scale":
		return sandbox.Work(scale)
	case "soak":
		return sandbox.Work(soak)
	}
	return errors.New("no such job")
}

// build makes our Caddy.
func build(path string) error {
	cmd := exec.Command("go", "build", "-o", path, "github.com/caddy-loadbalance/caddy-loadbalance/cmd/caddy")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
