package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// environ is the environment of a run. All that Caddy writes, and the browsers
// and Java that it would have trust its root certificate, it finds in the copy.
// The go tool keeps its settings and caches, though it finds them by the same
// variables. GOFLAGS excludes -trimpath, under which Caddy's tests skip
// themselves, and lets go test complete go.mod.
func (s *suite) environ(ctx context.Context) ([]string, error) {
	out, err := goCommand(ctx, s.dir, "env", "-json", "GOENV", "GOCACHE", "GOMODCACHE", "GOPATH")
	if err != nil {
		return nil, err
	}
	var kept map[string]string
	if err := json.Unmarshal(out, &kept); err != nil {
		return nil, fmt.Errorf("reading the answer of go env: %w", err)
	}
	env := os.Environ()
	for name, value := range kept {
		env = append(env, name+"="+value)
	}
	return append(env,
		"GOWORK=off",
		"GOFLAGS=-mod=mod",
		"HOME="+filepath.Join(s.dir, "home"),
		"JAVA_HOME=",
		"XDG_DATA_HOME="+filepath.Join(s.dir, "data"),
		"XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"),
	), nil
}
