package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// goTest runs go test -json on the copy. What concerns the package as a whole
// goes to show.
func (s *suite) goTest(ctx context.Context, show func(line string), args ...string) (outcomes, error) {
	env, err := s.environ(ctx)
	if err != nil {
		return nil, err
	}
	args = append([]string{"test", "-json", "-count=1", "-vet=off", "-timeout=15m"}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./integration")...)
	cmd.Dir = s.dir
	cmd.Env = env
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test passes it on
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, readErr := readEvents(out, show)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil // the events tell why
	}
	return results, errors.Join(readErr, err)
}

// readEvents collects the outcomes from the output of go test -json, and
// passes on what concerns the package as a whole: its closing line, and
// errors of the build.
func readEvents(r io.Reader, show func(line string)) (outcomes, error) {
	results := make(outcomes)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			switch {
			case json.Unmarshal(line, &e) != nil:
				show(string(line))
			case e.Test != "":
				results.add(e)
			case closing(e):
				show(e.Output)
			}
		}
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, fmt.Errorf("reading the output of go test: %w", err)
		}
	}
}

// closing says if an event of no test is for the reader: the last line about
// the package, or an error of the build. The rest is Caddy's log.
func closing(e event) bool {
	return e.Action == "build-output" ||
		strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t")
}
