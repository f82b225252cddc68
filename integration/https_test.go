package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// httpsExample is the path of a file of examples/https.
func httpsExample(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "examples", "https", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// readTextFile reads a text file.
func readTextFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHTTPSExampleIsValid checks that the example's Caddyfile is valid with its
// defaults, is formatted, and balances.
func TestHTTPSExampleIsValid(t *testing.T) {
	cmd := newCaddy(t).command(t, "adapt", "--validate", "--config", httpsExample(t, "Caddyfile"))
	var log strings.Builder
	cmd.Stderr = &log
	config, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for _, want := range []string{`"handler":"load_balance"`, `"10.0.0.13:8080"`, `"uri":"/healthz"`} {
		if !strings.Contains(string(config), want) {
			t.Errorf("adapted config lacks %s:\n%s", want, config)
		}
	}
	if strings.Contains(log.String(), "not formatted") {
		t.Error("Caddyfile is not formatted: run caddy fmt")
	}
}

// TestHTTPSExampleEnvironment checks that caddy.env sets what the Caddyfile
// reads, each to the default that stands there.
func TestHTTPSExampleEnvironment(t *testing.T) {
	used := envPairs(`\{\$(\w+):([^}]*)\}`, readTextFile(t, httpsExample(t, "Caddyfile")))
	set := envPairs(`(?m)^#?([A-Z_]+)=(.*)$`, readTextFile(t, httpsExample(t, "caddy.env")))
	if len(used) == 0 || len(used) != len(set) {
		t.Errorf("Caddyfile reads %v, caddy.env sets %v", used, set)
	}
	for name, value := range used {
		// Only this one is set to something else on purpose, in a comment.
		if name != "ACME_CA" && set[name] != value {
			t.Errorf("%s is %q by default and %q in caddy.env", name, value, set[name])
		}
	}
}

// envPairs maps the first group of each match to the second.
func envPairs(pattern, text string) map[string]string {
	found := make(map[string]string)
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[match[1]] = match[2]
	}
	return found
}

// TestHTTPSExampleVersions checks that the example, and the project's README,
// build with the versions of Go, Caddy and xcaddy that go.mod has.
func TestHTTPSExampleVersions(t *testing.T) {
	goMod := readTextFile(t, filepath.Join("..", "go.mod"))
	const dockerfile, readme, mainReadme = "Dockerfile", "README.md", "../../README.md"
	for _, version := range []struct {
		of, inGoMod, inFile string
		files               []string
	}{
		{"Go", `(?m)^go (\d+\.\d+)`, `(?:golang:|need Go )(\d+\.\d+)`, []string{dockerfile, mainReadme}},
		{"Caddy", `github\.com/caddyserver/caddy/v2 (v\S+)`, `xcaddy"? build (v[\d.]+)`, []string{dockerfile, readme, mainReadme}},
		{"xcaddy", `github\.com/caddyserver/xcaddy (v\S+)`, `xcaddy(?:@|\) )(v[\d.]+)`, []string{dockerfile, readme, mainReadme}},
	} {
		want := matchedVersions(version.inGoMod, goMod)
		for _, file := range version.files {
			got := matchedVersions(version.inFile, readTextFile(t, httpsExample(t, file)))
			if len(want) != 1 || !slices.Equal(got, want) {
				t.Errorf("%s has %s %q, go.mod %q", file, version.of, got, want)
			}
		}
	}
}

// matchedVersions returns the first group of each match, each version once.
func matchedVersions(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
