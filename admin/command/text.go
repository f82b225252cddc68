package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// escape returns text with everything that could steer a terminal, such as
// control characters and those that turn the writing around, in the form that
// Go source has for it.
func escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// escapeJSON does the same to valid JSON, which then says the same as before.
func escapeJSON(text []byte) []byte {
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			escaped = utf8.AppendRune(escaped, r)
		case r > math.MaxUint16:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped
}

// width returns how many columns text takes.
func width(text string) int { return utf8.RuneCountInString(text) }

// cut returns text in no more than so many columns.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	if columns <= 0 {
		return ""
	}
	return string([]rune(text)[:columns-1]) + "…"
}

// duration returns d in whole seconds, or in milliseconds below one second,
// without units that are zero at the end: 5m, 1h30m, 250ms.
func duration(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "292 years" // where durations end
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}

// countdown returns how long it is from now until then, in seconds.
func countdown(now time.Time, then *time.Time) string {
	if then == nil {
		return "-"
	}
	left := then.Sub(now)
	if left <= 0 {
		return "now"
	}
	return duration(max(left.Round(time.Second), time.Second))
}

// clock returns the local time of day, with the date if that is not today's.
func clock(now, at time.Time) string {
	now, at = now.Local(), at.Local()
	if now.YearDay() == at.YearDay() && now.Year() == at.Year() {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
