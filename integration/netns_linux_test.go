package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

const (
	// insideNamespacesEnv names the test that a re-executed test binary is to run.
	insideNamespacesEnv = "LOADBALANCE_INSIDE_NAMESPACES"

	// noNamespacesEnv lets those skip these tests who may not create namespaces.
	noNamespacesEnv = "LOADBALANCE_NO_NAMESPACES"

	// namespacesHint tells what to do where namespaces are not permitted.
	namespacesHint = "run as root or permit unprivileged user namespaces, or set " + noNamespacesEnv + "=1 to skip this test"

	// namespacesTimeout is how long a re-executed test may take. It is killed
	// namespacesGrace later, had it not ended itself by then.
	namespacesTimeout = 3 * time.Minute
	namespacesGrace   = 10 * time.Second
)

// inNamespaces runs body in a child process with a network and an /etc/hosts of
// its own: every port is free there, and the given names are 127.0.0.1. The
// child is this test binary, told to run only the calling test, which must do
// nothing outside of body. It fails if namespaces are not permitted.
func inNamespaces(t *testing.T, names []string, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(insideNamespacesEnv) == t.Name() {
		setUpNamespaces(t, names)
		body(t)
		return
	}
	if os.Getenv(noNamespacesEnv) == "1" {
		t.Skipf("%s=1: not run", noNamespacesEnv)
	}
	runInNamespaces(t)
}

// runInNamespaces re-executes the calling test and demands that it passed there.
func runInNamespaces(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), namespacesTimeout+namespacesGrace)
	defer cancel()

	output, err := namespacedTest(ctx, t).CombinedOutput()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Fatalf("creating namespaces: %v; %s", err, namespacesHint)
	}
	if err != nil {
		t.Fatalf("in its namespaces: %v\n%s", err, output)
	}
	if !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Fatalf("did not run in its namespaces:\n%s", output)
	}
	t.Logf("in its namespaces:\n%s", output)
}

// namespacedTest is the command that runs the calling test in new namespaces.
func namespacedTest(ctx context.Context, t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self,
		"-test.run="+onlyTest(t.Name()), "-test.v", "-test.count=1", "-test.timeout="+namespacesTimeout.String())
	cmd.Env = append(os.Environ(), insideNamespacesEnv+"="+t.Name(), binaryEnv+"="+caddyBinary(t))
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = namespaces()
	return cmd
}

// onlyTest is the -test.run pattern that matches the test of this name alone.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// namespaces asks for new namespaces, one of mounts among them, that end with
// the test.
func namespaces() *syscall.SysProcAttr {
	attr := sandbox.Namespaces(syscall.CLONE_NEWNS)
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// setUpNamespaces makes the new namespaces usable.
func setUpNamespaces(t *testing.T, names []string) {
	t.Helper()
	if err := sandbox.LoopbackUp(); err != nil {
		t.Fatalf("bringing loopback up: %v; %s", err, namespacesHint)
	}
	if err := replaceHosts(filepath.Join(t.TempDir(), "hosts"), names); err != nil {
		t.Fatalf("replacing /etc/hosts: %v; %s", err, namespacesHint)
	}
}

// replaceHosts mounts a hosts file in which the names, and localhost, are
// 127.0.0.1 over /etc/hosts, in this mount namespace only.
func replaceHosts(path string, names []string) error {
	line := fmt.Sprintf("127.0.0.1 localhost %s\n", strings.Join(names, " "))
	if err := os.WriteFile(path, []byte(line), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	return unix.Mount(path, "/etc/hosts", "", unix.MS_BIND, "")
}
