package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// test runs the copy, all of it or what matches the pattern, and prints the
// closing lines of go test as they come. Tests that fail are no error.
func (s *suite) test(ctx context.Context, pattern string) (outcomes, error) {
	if err := checkPorts(); err != nil {
		return nil, err
	}
	warm, err := s.goTest(ctx, func(string) {}, "-run="+warmUpTest)
	if err != nil {
		return nil, err
	}
	switch warm.verdict("TestWarmUp") {
	case "passed", "missing": // it is missing if the build failed: the run will show why
	default:
		return nil, fmt.Errorf("issuing certificates:\n%s", warm.output("TestWarmUp"))
	}
	args := []string{"-skip=" + warmUpTest}
	if pattern != "" {
		args = append(args, "-run="+pattern)
	}
	results, err := s.goTest(ctx, s.show, args...)
	if err != nil {
		return nil, err
	}
	return results, s.repeat(ctx, results)
}

const (
	// maxMissed is the number of tests above which none is run again: that
	// many are no accident.
	maxMissed = 10
	// rounds is how often a test that did not pass is run again.
	rounds = 2
)

// repeat runs each test that did not pass again, by itself, and has the new
// outcome replace the old one. Tests of Caddy's suite fail now and then, and
// for Caddy as well: they reload Caddy on the same ports, where a connection
// may end up with the listener that is being closed, or skip themselves while
// the admin endpoint moves. What the failed run printed is shown.
func (s *suite) repeat(ctx context.Context, results outcomes) error {
	for range rounds {
		missed := deepest(results.missed())
		if len(missed) > maxMissed {
			return nil
		}
		for _, name := range missed {
			s.show(name + " " + results.verdict(name) + ", and is run again\n")
			fmt.Print(results.output(name))
			again, err := s.goTest(ctx, s.show, "-run="+only(name))
			if err != nil {
				return err
			}
			results.replace(name, again)
		}
	}
	return nil
}

// only returns the regexp for go test -run that matches one test.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// show prints a line about the copy.
func (s *suite) show(line string) { fmt.Printf("%s: %s", s.name, line) }
