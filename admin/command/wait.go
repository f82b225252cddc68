package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

const (
	// waitInterval is the time between two looks at requests under way.
	waitInterval = 200 * time.Millisecond
	// waitPatience is how long the endpoint may be silent meanwhile: every
	// load of a config replaces it.
	waitPatience = 5 * time.Second
)

// awaitIdle returns when no request to the upstreams is under way, which are
// in the operator mode. A request that chose one of them just before the mode
// changed may not be counted yet, so it looks again in any case.
func awaitIdle(ctx context.Context, at *endpoint, upstreams []admin.Upstream, mode string, out io.Writer) error {
	shown := progress{out: out, what: escape(at.upstream)}
	defer shown.end()
	shown.show(upstreams)
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitInterval):
		}
		rows, err := at.list(false)
		switch {
		case err == nil:
			heard = time.Now()
		case time.Since(heard) > waitPatience:
			return err
		default:
			continue
		}
		if err := still(upstreams, rows, mode); err != nil {
			return err
		}
		if shown.show(rows) == 0 {
			return nil
		}
	}
}

// still reports whether the upstreams are all there, and in that mode.
func still(upstreams, now []admin.Upstream, mode string) error {
	modes := make(map[string]string, len(now))
	for _, u := range now {
		modes[place(u)] = u.Operator
	}
	for _, u := range upstreams {
		switch is, there := modes[place(u)]; {
		case !there:
			return fmt.Errorf("upstream %s is gone from pool %s", u.Address, u.Pool)
		case is != mode:
			return fmt.Errorf("upstream %s in pool %s is no longer in mode %s, but %s", u.Address, u.Pool, mode, is)
		}
	}
	return nil
}

// progress shows how many requests are under way: in one line on a terminal,
// otherwise in a line for every change.
type progress struct {
	out  io.Writer
	what string
	last string
}

// show returns how many requests are under way.
func (p *progress) show(upstreams []admin.Upstream) int {
	active := 0
	for _, u := range upstreams {
		active += u.InFlight
	}
	text := fmt.Sprintf("%s: %d requests under way", p.what, active)
	if active == 1 {
		text = p.what + ": 1 request under way"
	}
	switch columns, _ := terminal(p.out); {
	case text == p.last:
	case columns > 0:
		fmt.Fprintf(p.out, "\r%s\x1b[K", cut(text, columns-1))
	default:
		fmt.Fprintln(p.out, text)
	}
	p.last = text
	return active
}

// end leaves the line.
func (p *progress) end() {
	if columns, _ := terminal(p.out); columns > 0 {
		fmt.Fprintln(p.out)
	}
}
