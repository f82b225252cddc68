package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// suite is one copy of Caddy's integration suite: a module of its own, with
// the package in integration/ and Caddy's test certificates beside it.
type suite struct {
	name string
	dir  string
	port int // of the admin endpoint, for this copy alone
}

// write copies the suite from Caddy's source. With names it also renames the
// directive and compiles the plugin in.
func (s *suite) write(ctx context.Context, caddy, plugin module, names *renamer) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s.port = port

	edit := func(function, text string) string {
		if names != nil {
			text = names.edit(function, text)
		}
		return moveAdmin(text, s.port)
	}
	if err := s.copyFiles(filepath.Join(caddy.Dir, "caddytest"), edit); err != nil {
		return err
	}
	if err := s.writeFile("integration/setup_test.go", fmt.Appendf(nil, setupSource, s.port)); err != nil {
		return err
	}
	if err := s.writeFile("integration/warmup_test.go", fmt.Appendf(nil, warmUpSource, s.port)); err != nil {
		return err
	}
	if names == nil {
		return s.writeModule(ctx, caddy, plugin)
	}
	if err := s.writeFile("integration/plugin_test.go", fmt.Appendf(nil, pluginSource, plugin.Path)); err != nil {
		return err
	}
	return s.writeModule(ctx, caddy, plugin,
		"-require="+plugin.Path+"@v0.0.0", "-replace="+plugin.Path+"="+plugin.Dir)
}

// copyFiles copies the folder caddytest, all but the package caddytest itself,
// which the copy imports from Caddy. Texts pass through edit.
func (s *suite) copyFiles(from string, edit func(function, text string) string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if filepath.Dir(name) == "." && filepath.Ext(name) == ".go" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".go":
			data, err = rewriteStrings(name, data, edit, map[string]string{stockAdminPort: strconv.Itoa(s.port)})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case ".caddyfiletest", ".txt", ".conf":
			data = []byte(edit("", string(data)))
		}
		return s.writeFile(name, data)
	})
}

// writeModule makes the copy a module with the plugin's requirements. Its path
// lies below Caddy's, because the suite imports an internal package of Caddy.
func (s *suite) writeModule(ctx context.Context, caddy, plugin module, edits ...string) error {
	mod, err := os.ReadFile(plugin.GoMod)
	if err != nil {
		return err
	}
	if err := s.writeFile("go.mod", mod); err != nil {
		return err
	}
	if err := s.writeSums(plugin, caddy); err != nil {
		return err
	}
	args := append([]string{"mod", "edit", "-module=" + caddyPath + "/" + s.name}, edits...)
	_, err = goCommand(ctx, s.dir, args...)
	return err
}

// writeSums joins the checksums of the modules, so that the packages which
// only the suite needs are known too.
func (s *suite) writeSums(modules ...module) error {
	var sums []byte
	for _, m := range modules {
		sum, err := os.ReadFile(filepath.Join(m.Dir, "go.sum"))
		if err != nil {
			return err
		}
		sums = append(sums, sum...)
	}
	return s.writeFile("go.sum", sums)
}

// writeFile writes a file of the copy, with the folders above it.
func (s *suite) writeFile(name string, data []byte) error {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
