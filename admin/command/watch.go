package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// watchInterval is the time between two looks of --watch.
const watchInterval = time.Second

// A view shows the upstreams again and again. A nil list means that the
// endpoint did not answer, for the reason given.
type view interface {
	show(rows []admin.Upstream, trouble error, now time.Time) error
}

// watch shows the upstreams until it is interrupted. Only the first look has
// to succeed: Caddy may restart while it is watched.
func watch(ctx context.Context, from *endpoint, out, errs io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var shown view = &changes{out: out, errs: errs}
	if columns, _ := terminal(out); columns > 0 {
		shown = &screen{out: out}
	}
	for first := true; ; first = false {
		rows, err := look(ctx, from)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err := shown.show(rows, err, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}

// look lists the upstreams, unless the context ends first.
func look(ctx context.Context, from *endpoint) ([]admin.Upstream, error) {
	type answer struct {
		rows []admin.Upstream
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		rows, err := from.list(false)
		answered <- answer{rows, err}
	}()
	select {
	case a := <-answered:
		return a.rows, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// screen is a terminal, where the list is redrawn in place.
type screen struct {
	out   io.Writer
	rows  []admin.Upstream // the latest known
	drawn int              // lines
}

func (s *screen) show(rows []admin.Upstream, trouble error, now time.Time) error {
	columns, lines := terminal(s.out)
	room := columns - 1 // a line that fills the last column may wrap
	last := "interrupt to end"
	if trouble == nil {
		s.rows = rows
	} else {
		last = escape(trouble.Error())
	}
	text := table(s.rows, now, room)
	if most := max(lines-2, 1); len(text) > most {
		last = fmt.Sprintf("%d more do not fit; %s", len(text)-most, last)
		text = text[:most]
	}
	text = append(text, cut(now.Format(time.TimeOnly)+"  "+last, room))
	_, err := io.WriteString(s.out, s.redraw(text))
	return err
}

// redraw returns what puts the lines in the place of those drawn before.
func (s *screen) redraw(lines []string) string {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	return b.String()
}

// changes is a plain text with a line for everything that changes, apart from
// counters and countdowns.
type changes struct {
	out, errs io.Writer
	rows      []admin.Upstream  // the latest known
	news      map[string]string // what was told last of each
	widths    []int
	troubled  bool
}

func (c *changes) show(rows []admin.Upstream, trouble error, now time.Time) error {
	if trouble != nil {
		if !c.troubled {
			fmt.Fprintln(c.errs, "Error:", escape(trouble.Error()))
		}
		c.troubled = true
		return nil
	}
	c.troubled = false
	var cells [][]string
	if c.news == nil {
		c.widths = make([]int, len(columns))
		cells = append(cells, heads())
	}
	news := make(map[string]string, len(rows))
	for _, u := range rows {
		key := place(u)
		news[key] = state(u)
		if c.news[key] != news[key] {
			cells = append(cells, row(u, now))
		}
	}
	for _, u := range c.rows {
		if _, there := news[place(u)]; !there {
			u.Status, u.InRotation, u.NextCheck = "gone", false, nil
			cells = append(cells, row(u, now))
		}
	}
	first := c.news == nil
	c.rows, c.news = rows, news
	for _, r := range cells {
		widen(c.widths, r)
	}
	for i, r := range cells {
		stamp := now.Format(time.DateTime)
		if first && i == 0 {
			stamp = fmt.Sprintf("%-*s", len(stamp), "TIME")
		}
		if _, err := fmt.Fprintln(c.out, stamp+gap+line(r, c.widths)); err != nil {
			return err
		}
	}
	return nil
}

// place returns what tells an upstream from all others.
func place(u admin.Upstream) string { return u.Pool + "\x00" + u.Address }

// state returns what is news about an upstream if it changes.
func state(u admin.Upstream) string {
	var b strings.Builder
	for _, c := range columns {
		if !c.moving {
			b.WriteString(c.cell(u, time.Time{}) + "\x00") // the countdown in it stands still
		}
	}
	return b.String()
}
