//go:build linux

// Package peer runs the load balancers that are compared, each with a
// configuration that does the same as those of the others, as well as it can.
package peer

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// Peer is a load balancer with a configuration.
type Peer struct {
	// Name is what tables call it.
	Name string
	// Note says in a few words how it is configured.
	Note string
	// program is its executable, looked up in PATH if it is no path; Caddy if
	// empty.
	program string
	// arguments and config are templates.
	arguments []string
	config    string
	// reload makes it take the configuration in file anew.
	reload func(p *Process, file string) error
}

// Config is the template of its configuration.
func (p Peer) Config() string { return p.config }

// Setup is what a peer has to do.
type Setup struct {
	// Caddy is the path of our Caddy.
	Caddy string
	// Dir is a folder of its own.
	Dir string
	// Listen is its address for clients, without encryption, for HTTP/2 if
	// HTTP2, else for HTTP/1.1.
	Listen string
	HTTP2  bool
	// Upstreams are the addresses of the backends. Their health checks are
	// answered at the same addresses, or at HealthPort if there is one.
	Upstreams  []string
	HealthPort string
	// Interval is that of health checks.
	Interval time.Duration
	// Admin is the address of Caddy's admin endpoint, the usual one if empty.
	Admin string
	// Alone makes it one process with one thread for the processor, without
	// one that reloads it.
	Alone bool
}

// Threads is how many threads for the processor the peer has.
func (s Setup) Threads() int {
	if s.Alone {
		return 1
	}
	return runtime.NumCPU()
}

// Process is a peer that runs.
type Process struct {
	Peer
	setup Setup
	cmd   *exec.Cmd
	log   bytes.Buffer
	file  string
}

// Named returns the peer of that name, which is one of them.
func Named(peers []Peer, name string) Peer {
	return peers[slices.IndexFunc(peers, func(p Peer) bool { return p.Name == name })]
}

// Missing returns which of the programs are not installed.
func Missing(peers []Peer) []string {
	var missing []string
	for _, p := range peers {
		if p.program == "" {
			continue
		}
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.program)
		}
	}
	return missing
}

// Start runs the peer, and returns when it listens.
func (p Peer) Start(setup Setup) (*Process, error) {
	setup.Admin = cmp.Or(setup.Admin, Admin)
	r := &Process{Peer: p, setup: setup, file: filepath.Join(setup.Dir, "config")}
	config, err := expand(p.config, setup)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	program := p.program
	if program == "" {
		program = setup.Caddy
	}
	var arguments []string
	for _, a := range p.arguments {
		argument, err := expand(a, setup)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, argument)
	}
	r.cmd = exec.Command(program, arguments...)
	r.cmd.Dir = setup.Dir
	r.cmd.Env = append(os.Environ(),
		"XDG_DATA_HOME="+setup.Dir, "XDG_CONFIG_HOME="+setup.Dir,
		fmt.Sprintf("GOMAXPROCS=%d", setup.Threads()))
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with its workers
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	if err := r.awaitListener(); err != nil {
		r.Stop()
		return nil, fmt.Errorf("%s: %w\n%s", p.Name, err, r.log.String())
	}
	return r, nil
}

// startTime is how long a peer may take until it listens.
const startTime = 30 * time.Second

func (r *Process) awaitListener() error {
	for end := time.Now().Add(startTime); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", r.setup.Listen)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// Reload makes it take its configuration anew, as its operator would.
func (r *Process) Reload() error { return r.reload(r, r.file) }

// Stop ends it and its workers at once.
func (r *Process) Stop() {
	_ = syscall.Kill(-r.PID(), syscall.SIGKILL)
	_ = r.cmd.Wait()
}

// PID is the number of its first process.
func (r *Process) PID() int { return r.cmd.Process.Pid }

func expand(text string, setup Setup) (string, error) {
	functions := template.FuncMap{
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) },
		"ms":      func(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) },
		"join":    strings.Join,
	}
	t, err := template.New("config").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, setup)
	return out.String(), err
}
