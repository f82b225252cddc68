// Package sandbox runs parts of this program in a network of their own, in
// which every port and every loopback address is free and packets can be
// dropped, and whose processes all end with it.
//
//	Run(name, jobs) --JSON--> Work(do) in new namespaces --JSON--> done(job, result)
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Command is the first argument that makes a program run Work, for the jobs of
// the name that is the second.
const Command = "sandbox"

// Run does jobs, each in a new sandbox, at most lanes at a time, in order. It
// calls done with each job and its result, one call at a time, and returns the
// first error of any, done's included, after which no job begins.
func Run[Job, Result any](name string, jobs []Job, lanes int, done func(Job, Result) error) error {
	var (
		wait  sync.WaitGroup
		mutex sync.Mutex
		first error
	)
	next := func() (job Job, ok bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if len(jobs) == 0 || first != nil {
			return job, false
		}
		job, jobs = jobs[0], jobs[1:]
		return job, true
	}
	for range lanes {
		wait.Go(func() {
			for job, ok := next(); ok; job, ok = next() {
				var result Result
				err := send(name, job, &result)
				mutex.Lock()
				if err == nil {
					err = done(job, result)
				}
				if err != nil && first == nil {
					first = fmt.Errorf("%v: %w", job, err)
				}
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	return first
}

// send does a job in a new sandbox.
func send(name string, job, result any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, Command, name)
	cmd.SysProcAttr = Namespaces()
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe() // held open: when it ends, so does the sandbox
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("creating namespaces (root or user namespaces are needed): %w", err)
	}
	err = json.NewEncoder(input).Encode(job)
	if err == nil {
		err = json.NewDecoder(output).Decode(result)
	}
	_ = input.Close()
	if ended := cmd.Wait(); err != nil {
		return errors.Join(err, ended)
	}
	return nil
}

// Work does the job that Run sent to this process, in a folder for the time
// being.
func Work[Job, Result any](do func(job Job, dir string) (Result, error)) error {
	if err := LoopbackUp(); err != nil {
		return fmt.Errorf("bringing loopback up: %w", err)
	}
	var job Job
	input := json.NewDecoder(os.Stdin)
	if err := input.Decode(&job); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever sent the job is gone
	}()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result, err := do(job, dir)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Namespaces asks for a network and for a PID namespace, with which all
// processes end, for others by their flags, and for a user namespace, which
// permits those to whom is not root.
func Namespaces(others ...uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	for _, flag := range others {
		attr.Cloneflags |= flag
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}
