package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// renamer renames the directive over many texts and keeps account of it.
type renamer struct {
	renameCount
	exceptions map[string]int // function -> handlers whose checks are off
}

func newRenamer(exceptions []exception) *renamer {
	r := &renamer{exceptions: make(map[string]int)}
	for _, e := range exceptions {
		r.exceptions[e.function] = 0
	}
	return r
}

// edit renames the directive in a text that stands in the function given, or
// in none.
func (r *renamer) edit(function, text string) string {
	text, n := rename(text)
	r.add(n)
	if off, ok := r.exceptions[function]; ok {
		var handlers int
		text, handlers = uncheck(text)
		r.exceptions[function] = off + handlers
	}
	return text
}

// verify fails if nothing was renamed, or if an exception has become idle.
func (r *renamer) verify() error {
	if r.directives == 0 || r.handlers == 0 {
		return errors.New("nothing has been renamed")
	}
	for _, function := range slices.Sorted(maps.Keys(r.exceptions)) {
		if r.exceptions[function] == 0 {
			return fmt.Errorf("nothing to switch checks off for in %s", function)
		}
	}
	return nil
}

// String sums up what has been renamed.
func (r *renamer) String() string {
	functions := slices.Sorted(maps.Keys(r.exceptions))
	return fmt.Sprintf("%d directives, %d handlers, %d messages; checks off in %s",
		r.directives, r.handlers, r.messages, strings.Join(functions, ", "))
}
