package loadbalance

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/caddy-loadbalance/caddy-loadbalance"

// TestDependenciesPointOneWay holds every import between the packages of the
// module against the architecture.
func TestDependenciesPointOneWay(t *testing.T) {
	allowed := map[string][]string{
		".":           {"admin", "admin/command", "caddyfile", "healthcheck", "metrics", "statuspage", "upstreams"},
		"admin":       {"healthcheck", "upstreams"},
		"caddyfile":   {"healthcheck", "upstreams"},
		"cmd/caddy":   {"."},
		"healthcheck": nil,
		"metrics":     {"healthcheck", "upstreams"},
		"statuspage":  {"admin", "healthcheck", "upstreams"},
		"upstreams":   {"healthcheck"},

		"admin/command":          {"admin", "healthcheck"},
		"bench":                  {"bench/backend", "bench/exchange", "bench/load", "bench/peer", "bench/report", "bench/sandbox", "bench/stats", "bench/wire"},
		"bench/backend":          {"bench/child", "bench/exchange"},
		"bench/chart":            nil,
		"bench/child":            nil,
		"bench/exchange":         {"bench/child"},
		"bench/load":             nil,
		"bench/peer":             nil,
		"bench/report":           {"bench/chart", "bench/stats"},
		"bench/sandbox":          nil,
		"bench/stats":            nil,
		"bench/wire":             nil,
		"integration/caddysuite": nil,
	}
	for file, imports := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(file))
		may, known := allowed[dir]
		if !known {
			t.Errorf("%s: package %s has no place in the architecture", file, dir)
		}
		for _, path := range imports {
			rest, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if to := strings.TrimPrefix(rest, "/"); !slices.Contains(may, cmp.Or(to, ".")) {
				t.Errorf("%s: package %s must not import %s", file, dir, path)
			}
		}
	}
}

// TestPureFilesImportOnlyTheStandardLibrary guards the decisions of the
// health checker, and the order of turns.
func TestPureFilesImportOnlyTheStandardLibrary(t *testing.T) {
	all := sources(t)
	for _, file := range []string{"healthcheck/state.go", "healthcheck/delay.go", "upstreams/smooth.go"} {
		imports, ok := all[file]
		if !ok {
			t.Errorf("%s is gone", file)
		}
		for _, path := range imports {
			if strings.Contains(path, ".") || path == "os" || path == "net" || path == "sync" {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// sources returns the imports of every Go file that is no test.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		imports := []string{}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, name)
		}
		found[filepath.ToSlash(path)] = imports
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
