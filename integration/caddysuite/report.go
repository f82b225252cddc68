package main

import (
	"errors"
	"fmt"
	"io"
)

// errDiffers says that the drop-in rule is broken; the report has the names.
var errDiffers = errors.New("tests that pass for Caddy do not pass with the directive renamed")

// report prints how the two runs compare: the tests that differ with their
// output, the figures, and the tests that did not pass in either run. It is an
// error if a test that passes in before does not in after, or if fewer than
// least leaf tests ran or passed.
func report(w io.Writer, before, after outcomes, least int) error {
	differing := broken(before, after)
	for _, name := range differing {
		fmt.Fprintf(w, "\n%s: stock passed, renamed %s\n%s", name, after.verdict(name), after.output(name))
	}
	fmt.Fprintln(w)
	summarize(w, "stock", before)
	summarize(w, "renamed", after)

	passed := 0
	for _, name := range before.leaves() {
		if before.verdict(name) == "passed" && after.verdict(name) == "passed" {
			passed++
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", passed, len(differing))

	switch n := len(before.leaves()); {
	case len(differing) > 0:
		return errDiffers
	case n < least:
		return fmt.Errorf("only %d tests ran, of at least %d", n, least)
	case passed < least:
		return fmt.Errorf("only %d tests passed, of at least %d", passed, least)
	}
	return nil
}

// summarize prints the figures of one run and the leaf tests that did not
// pass in it.
func summarize(w io.Writer, label string, run outcomes) {
	leaves := run.leaves()
	passed := 0
	for _, name := range leaves {
		if run.verdict(name) == "passed" {
			passed++
		}
	}
	fmt.Fprintf(w, "%s: %d of %d passed\n", label, passed, len(leaves))
	for _, name := range leaves {
		if v := run.verdict(name); v != "passed" {
			fmt.Fprintf(w, "%s: %s %s\n", label, name, v)
		}
	}
	for _, name := range run.where(func(name string) bool { return run[name].repeated }) {
		fmt.Fprintf(w, "%s: %s did not pass at first, and then %s\n", label, name, run.verdict(name))
	}
}

// broken returns the tests that passed before and did not after. A test that
// only failed because of its subtests is left out.
func broken(before, after outcomes) []string {
	return deepest(before.where(func(name string) bool {
		return before.verdict(name) == "passed" && after.verdict(name) != "passed"
	}))
}
