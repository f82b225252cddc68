// Package integration tests load_balance in a real Caddy with real sockets.
// Every Caddy under test is a child process of the binary built from
// ./cmd/caddy, with free ports and a data folder of its own.
package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaryEnv names a binary to test instead of building one.
const binaryEnv = "LOADBALANCE_CADDY"

// workDir is removed after the last test.
var workDir string

func TestMain(m *testing.M) {
	if addr := os.Getenv(backendEnv); addr != "" {
		os.Exit(serveBackend(addr))
	}
	dir, err := os.MkdirTemp("", "loadbalance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		return path, nil
	}
	path := filepath.Join(workDir, "caddy")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../cmd/caddy")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building caddy: %w\n%s", err, out)
	}
	return path, nil
})

// caddyBinary returns the path of the Caddy under test, which is built once
// per run, with the race detector if the tests have it.
func caddyBinary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
