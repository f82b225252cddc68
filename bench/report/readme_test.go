package report

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheResults holds the tables of the README's section on
// measurements against RESULTS.md.
func TestReadmeShowsTheResults(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	results, err := os.ReadFile("../RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Measured\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		rows++
		if !strings.Contains(string(results), line) {
			t.Errorf("not in RESULTS.md: %s", line)
		}
	}
	if rows == 0 {
		t.Error("README shows no results")
	}
}
