package statuspage

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Words of the templates. The script has span and group, too.

// Until returns how long it is until a time, in an element whose text the
// script keeps up to date.
func (s scene) Until(at instant) template.HTML {
	if at < s.Now+1000 {
		return clock("until", at, "now")
	}
	return clock("until", at, "in "+span(at-s.Now))
}

// Ago returns how long ago a time was, in such an element.
func (s scene) Ago(at instant) template.HTML { return clock("since", at, span(s.Now-at)) }

func clock(kind string, at instant, text string) template.HTML {
	when := time.UnixMilli(int64(at)).UTC().Format("2006-01-02T15:04:05.000Z")
	// nothing here but numbers and words of ours
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-%s="%d">%s</time>`, when, when, kind, at, text)) //nolint:gosec // see above
}

// span returns a time span in words, in seconds at the finest.
func span(ms instant) string {
	seconds := max(int64(ms), 0) / 1000
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm\u00a0%02ds", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%dh\u00a0%02dm", seconds/3600, seconds/60%60)
	}
	return fmt.Sprintf("%dd\u00a0%dh", seconds/86400, seconds/3600%24)
}

// group writes a number with commas between groups of three digits.
func group(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural returns a number and what is counted.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return group(n) + " " + one + "s"
}

// names are the ranks as the page's style and its reader know them.
var names = [ranks]struct{ class, word string }{
	down:       {"down", "down"},
	ejected:    {"ejected", "ejected"},
	retired:    {"retired", "retired"},
	unknown:    {"unknown", "unknown"},
	failing:    {"failing", "failing"},
	maintained: {"maint", "in maintenance"},
	drained:    {"drain", "drained"},
	well:       {"up", "well"},
}

// String returns the name of the rank in the page's style.
func (r rank) String() string { return names[r].class }

// share is a rank's part of a bar that is 100 wide.
type share struct {
	Rank     rank
	Count    int
	Word     string
	At, Wide string
}

// Shares returns the parts of a bar, the best first.
func (h health) Shares() []share {
	var list []share
	at := 0.0
	for r := int(ranks) - 1; r >= 0; r-- {
		n := h.Ranks[r]
		if n == 0 {
			continue
		}
		wide := 100 * float64(n) / float64(h.Total)
		list = append(list, share{rank(r), n, names[r].word, decimal(at), decimal(wide)})
		at += wide
	}
	return list
}

// InWords says how many of what rank there are, for those who see no bar.
func (h health) InWords() string {
	var list []string
	for _, s := range h.Shares() {
		list = append(list, group(s.Count)+" "+s.Word)
	}
	return strings.Join(list, ", ")
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// Says sums up a pool.
func (h health) Says() string {
	var says string
	switch {
	case h.Total == 0:
		return "no upstreams"
	case h.Dead():
		says = "nothing in rotation"
	case h.Serving == h.Total:
		says = "all " + group(h.Total) + " in rotation"
		if h.Total == 1 {
			says = "in rotation"
		}
	default:
		says = group(h.Serving) + " of " + group(h.Total) + " in rotation"
	}
	if h.Standby > 0 {
		says += ", " + group(h.Standby) + " on standby"
	}
	return says
}

// Tone is how a pool, or everything, is doing.
func (h health) Tone() string {
	switch {
	case h.Dead():
		return "bad"
	case h.Troubled() > 0:
		return "warn"
	}
	return "good"
}

// Tone is how everything is doing.
func (s summary) Tone() string {
	switch {
	case s.Pools == 0:
		return "none"
	case s.Dead > 0:
		return "bad"
	}
	return s.Health.Tone()
}

// Headline sums up everything.
func (s summary) Headline() string {
	switch n := s.Health.Troubled(); {
	case s.Pools == 0:
		return "No load_balance handler is configured"
	case s.Dead == 1 && s.Pools == 1:
		return "Nothing is in rotation"
	case s.Dead == 1:
		return "One pool has nothing in rotation"
	case s.Dead > 0:
		return group(s.Dead) + " pools have nothing in rotation"
	case n == 1:
		return "One upstream needs attention"
	case n > 0:
		return group(n) + " upstreams need attention"
	}
	return "All is well"
}

// Took returns how long the last check took.
func (r row) Took() string {
	ms := float64(r.LastTook) / float64(time.Millisecond)
	if ms < 10 {
		return strconv.FormatFloat(ms, 'f', 1, 64) + "\u00a0ms"
	}
	return group(int(ms)) + "\u00a0ms"
}

// Share returns a note about the row's weight, if it is not 1.
func (r row) Share() string {
	if r.Weight == 1 {
		return ""
	}
	return "weight " + strconv.Itoa(r.Weight)
}
