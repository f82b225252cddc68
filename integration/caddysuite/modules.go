package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// caddyPath is the module whose suite is run.
const caddyPath = "github.com/caddyserver/caddy/v2"

// module is what go list -m tells of one module.
type module struct {
	Path    string
	Version string
	Dir     string // empty as long as the module is not in the cache
	GoMod   string // file name of its go.mod
}

// findModules returns the module that dir is in, which provides load_balance,
// and Caddy at the version which that module requires.
func findModules(ctx context.Context, dir string) (plugin, caddy module, err error) {
	plugin, err = listModule(ctx, dir)
	if err != nil {
		return module{}, module{}, err
	}
	caddy, err = listModule(ctx, dir, caddyPath)
	if err != nil {
		return module{}, module{}, err
	}
	if caddy.Dir == "" {
		caddy, err = downloadModule(ctx, dir, caddyPath)
	}
	return plugin, caddy, err
}

// downloadModule brings a module into the cache.
func downloadModule(ctx context.Context, dir, path string) (module, error) {
	if _, err := goCommand(ctx, dir, "mod", "download", path); err != nil {
		return module{}, err
	}
	m, err := listModule(ctx, dir, path)
	if err == nil && m.Dir == "" {
		err = fmt.Errorf("%s is not in the module cache", path)
	}
	return m, err
}

// listModule asks go list about one module, the main one by default.
func listModule(ctx context.Context, dir string, path ...string) (module, error) {
	out, err := goCommand(ctx, dir, append([]string{"list", "-m", "-json"}, path...)...)
	if err != nil {
		return module{}, err
	}
	var m module
	if err := json.Unmarshal(out, &m); err != nil {
		return module{}, fmt.Errorf("reading the answer of go list: %w", err)
	}
	return m, nil
}

// goCommand runs the go tool in dir, outside of any workspace, and returns
// what it prints.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}
