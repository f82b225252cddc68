package main

import (
	"maps"
	"slices"
	"strings"
)

// outcome is what became of one test.
type outcome struct {
	action string // "pass", "fail", "skip", or "" if it never ended
	output strings.Builder

	repeated bool // the test did not pass at first, and this is a later outcome
}

// outcomes are those of one run, by the name of the test.
type outcomes map[string]*outcome

func (o outcomes) add(e event) {
	test := o[e.Test]
	if test == nil {
		test = new(outcome)
		o[e.Test] = test
	}
	switch e.Action {
	case "output":
		test.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		test.action = e.Action
	}
}

// where returns the names of the tests that match, sorted.
func (o outcomes) where(match func(name string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o)), func(name string) bool {
		return !match(name)
	})
}

// missed returns the tests that did not pass, sorted.
func (o outcomes) missed() []string {
	return o.where(func(name string) bool { return o.verdict(name) != "passed" })
}

// replace has the outcomes of another run of one test, with the tests above
// and below it, stand for the former ones.
func (o outcomes) replace(name string, again outcomes) {
	for part, test := range again {
		test.repeated = part == name || o[part] != nil && o[part].repeated
		o[part] = test
	}
}

// deepest returns the names that have no others of the list below them.
func deepest(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool {
			return strings.HasPrefix(other, name+"/")
		})
	})
}

// leaves returns the tests that have no subtests, sorted.
func (o outcomes) leaves() []string {
	parents := make(map[string]bool)
	for name := range o {
		for i, c := range name {
			if c == '/' {
				parents[name[:i]] = true
			}
		}
	}
	return o.where(func(name string) bool { return !parents[name] })
}

// output returns what a test printed.
func (o outcomes) output(name string) string {
	if test := o[name]; test != nil {
		return test.output.String()
	}
	return ""
}

// verdict says in a word what became of a test.
func (o outcomes) verdict(name string) string {
	test := o[name]
	if test == nil {
		return "missing"
	}
	switch test.action {
	case "pass":
		return "passed"
	case "fail":
		return "failed"
	case "skip":
		return "skipped"
	default:
		return "unfinished"
	}
}
