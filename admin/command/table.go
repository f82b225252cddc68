package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// column is a column of the list of upstreams.
type column struct {
	head string
	cell func(u admin.Upstream, now time.Time) string
	// right says that it is flush right, as numbers are.
	right bool
	// spare is how early it is left out where there is no room for all: 1
	// first, 0 never.
	spare int
	// moving says that a new value is no news.
	moving bool
}

// columns are those of the list. The last one may be cut.
var columns = []column{
	{head: "POOL", cell: func(u admin.Upstream, _ time.Time) string { return u.Pool }},
	{head: "ADDRESS", cell: func(u admin.Upstream, _ time.Time) string { return u.Address }},
	{head: "STATUS", cell: func(u admin.Upstream, _ time.Time) string { return u.Status }},
	{head: "ROTATION", cell: func(u admin.Upstream, _ time.Time) string { return rotation(u) }, spare: 5},
	{head: "MODE", cell: func(u admin.Upstream, _ time.Time) string { return u.Operator }},
	{head: "WEIGHT", cell: func(u admin.Upstream, _ time.Time) string { return weight(u) }, spare: 3},
	{head: "FAILS", cell: func(u admin.Upstream, _ time.Time) string { return failures(u) }, right: true},
	{head: "NEXT", cell: func(u admin.Upstream, now time.Time) string { return countdown(now, u.NextCheck) }, right: true, moving: true},
	{head: "ACTIVE", cell: func(u admin.Upstream, _ time.Time) string { return strconv.Itoa(u.InFlight) }, right: true, spare: 4, moving: true},
	{head: "REQUESTS", cell: func(u admin.Upstream, _ time.Time) string { return strconv.FormatUint(u.Requests, 10) }, right: true, spare: 1, moving: true},
	{head: "ERRORS", cell: func(u admin.Upstream, _ time.Time) string { return strconv.FormatUint(u.Errors, 10) }, right: true, spare: 2, moving: true},
	{head: "REASON", cell: reason},
}

// reasonRoom is how many columns a reason needs before others make way.
const reasonRoom = 18

func rotation(u admin.Upstream) string {
	if u.InRotation {
		return "in"
	}
	return "out"
}

func weight(u admin.Upstream) string {
	text := strconv.Itoa(u.Weight)
	if u.Backup {
		text += " backup"
	}
	return text
}

func failures(u admin.Upstream) string {
	if u.MaxFailures == 0 {
		return strconv.Itoa(u.Failures)
	}
	return fmt.Sprintf("%d/%d", u.Failures, u.MaxFailures)
}

// reason says why an upstream gets no requests, or was checked in vain.
func reason(u admin.Upstream, now time.Time) string {
	if u.EjectedUntil == nil {
		return u.Reason
	}
	text := "ejected"
	if u.EjectedUntil.After(now) {
		text += " for " + countdown(now, u.EjectedUntil)
	}
	if why := strings.TrimPrefix(u.Reason, "ejected: "); why != "" {
		text += ": " + why
	}
	return text
}

// row returns the cells of an upstream, fit for a terminal.
func row(u admin.Upstream, now time.Time) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = escape(c.cell(u, now))
	}
	return cells
}

// table returns the lines of the list of upstreams, the head first, in no
// more than so many columns of text, or as many as it takes if that is 0.
func table(upstreams []admin.Upstream, now time.Time, room int) []string {
	rows := [][]string{heads()}
	for _, u := range upstreams {
		rows = append(rows, row(u, now))
	}
	widths := make([]int, len(columns))
	for _, cells := range rows {
		widen(widths, cells)
	}
	fit(widths, room)
	lines := make([]string, len(rows))
	for i, cells := range rows {
		lines[i] = line(cells, widths)
		if room > 0 {
			lines[i] = cut(lines[i], room)
		}
	}
	return lines
}

func heads() []string {
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	return heads
}

// widen makes widths hold the cells of a row.
func widen(widths []int, cells []string) {
	for i, cell := range cells {
		widths[i] = max(widths[i], width(cell))
	}
}

// fit makes columns 0 wide until a line has room.
func fit(widths []int, room int) {
	if room <= 0 {
		return
	}
	last := len(columns) - 1
	for spare := 1; ; spare++ {
		taken := min(widths[last], reasonRoom)
		for _, w := range widths[:last] {
			if w > 0 {
				taken += w + len(gap)
			}
		}
		next := slices.IndexFunc(columns, func(c column) bool { return c.spare == spare })
		if taken <= room || next < 0 {
			return
		}
		widths[next] = 0
	}
}

// gap is between two columns.
const gap = "  "

// line returns the cells side by side. Columns of width 0 are left out.
func line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		pad := strings.Repeat(" ", max(widths[i]-width(cell), 0))
		if columns[i].right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
		b.WriteString(gap)
	}
	return strings.TrimRight(b.String(), " ")
}
