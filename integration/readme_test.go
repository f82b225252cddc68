package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// fences returns the code blocks of the README in a language.
func fences(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	parts := strings.Split(string(readme), "\n```")
	for i := 1; i < len(parts); i += 2 {
		if body, ok := strings.CutPrefix(parts[i], language+"\n"); ok {
			found = append(found, body)
		}
	}
	if len(found) == 0 {
		t.Fatalf("README has no %s block", language)
	}
	return found
}

// readmeCommands returns every shell command of the README.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, block := range fences(t, "sh") {
		commands = append(commands, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return commands
}

// validate runs `caddy validate` on a config.
func validate(t *testing.T, name, config string) {
	t.Helper()
	c := newCaddy(t)
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.command(t, "validate", "--config", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, config, out)
	}
}

func TestReadmeCaddyfiles(t *testing.T) {
	for _, block := range fences(t, "caddyfile") {
		validate(t, "Caddyfile", block)
	}
}

func TestReadmeJSON(t *testing.T) {
	for _, block := range fences(t, "json") {
		if strings.HasPrefix(block, "{") {
			validate(t, "caddy.json", block)
			continue
		}
		var rows []map[string]any // what the admin API shows
		if err := json.Unmarshal([]byte(block), &rows); err != nil {
			t.Fatal(err)
		}
		shown, fields := reflect.TypeFor[admin.Upstream](), 0
		for i := range shown.NumField() {
			if shown.Field(i).Anonymous {
				continue // only if it is asked for
			}
			fields++
			name := shown.Field(i).Tag.Get("json")
			if _, ok := rows[0][name]; !ok {
				t.Errorf("the README's answer of the admin API has no %q", name)
			}
		}
		if len(rows[0]) != fields {
			t.Errorf("the README's answer has %d fields, the API %d", len(rows[0]), fields)
		}
	}
}

// TestReadmeCommands looks that every command of the README is run: by the
// quickstart test, or by .ci/run. The one that needs the published module is
// held against the versions in go.mod.
func TestReadmeCommands(t *testing.T) {
	script, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range readmeCommands(t) {
		published := "xcaddy build v2.11.9 --with github.com/caddy-loadbalance/caddy-loadbalance"
		switch {
		case command == published:
			if !strings.Contains(string(gomod), "github.com/caddyserver/caddy/v2 v2.11.9") {
				t.Error("the README builds with another version of Caddy than go.mod")
			}
		case strings.Contains(string(script), "\n"+strings.Replace(command, "./caddy", `"$tmp/caddy"`, 1)+"\n"):
		case command == quickstartCommand || slices.ContainsFunc(walk, func(s step) bool { return s.command == command }):
		default:
			t.Errorf("nothing runs %q", command)
		}
	}
	if !strings.Contains(string(gomod), "github.com/caddyserver/xcaddy v0.4.5") {
		t.Error("the README names another version of xcaddy than go.mod")
	}
}

func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../examples/*/Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		config, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) { validate(t, "Caddyfile", string(config)) })
	}
}
