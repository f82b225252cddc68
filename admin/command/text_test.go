package command

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"127.0.0.1:80":            "127.0.0.1:80",
		"unix//run/a b.sock":      "unix//run/a b.sock",
		"ünï 🎈 \\ \" '":           "ünï 🎈 \\ \" '",
		"\x1b[31mred\x1b]0;t\x07": `\x1b[31mred\x1b]0;t\a`,
		"two\nlines\ttab\r":       `two\nlines\ttab\r`,
		"\u009b2J \x7f \u0000":    `\u009b2J \x7f \x00`,
		"\x9b2J \xff":             `\x9b2J \xff`,
		"\u202e \u2028 \u00a0":    `\u202e \u2028 \u00a0`,
		"\U000e0001 \ufffd":       `\U000e0001 ` + "\ufffd",
	} {
		if got := escape(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// What is escaped in JSON means the same as before.
func TestEscapeJSON(t *testing.T) {
	value := "ü 🎈 \u009b2J \x7f \u202e \U000e0001 \\ \""
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	escaped := escapeJSON(text)
	if got, want := string(escaped), `"ü 🎈 \u009b2J \u007f \u202e \udb40\udc01 \\ \""`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back string
	if err := json.Unmarshal(escaped, &back); err != nil || back != value {
		t.Errorf("got %q, %v", back, err)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                          "0s",
		250 * time.Microsecond:     "0s",
		1500 * time.Microsecond:    "2ms",
		999 * time.Millisecond:     "999ms",
		time.Second:                "1s",
		10400 * time.Millisecond:   "10s",
		time.Minute:                "1m",
		10 * time.Minute:           "10m",
		65 * time.Second:           "1m5s",
		time.Hour:                  "1h",
		90 * time.Minute:           "1h30m",
		time.Hour + time.Second:    "1h0m1s",
		100 * time.Hour:            "100h",
		10*time.Hour + time.Minute: "10h1m",
		math.MaxInt64:              "292 years",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestCountdown(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Hour:              "now",
		0:                       "now",
		time.Millisecond:        "1s",
		1499 * time.Millisecond: "1s",
		4900 * time.Millisecond: "5s",
		61 * time.Second:        "1m1s",
	} {
		at := now.Add(d)
		if got := countdown(now, &at); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	if got := countdown(now, nil); got != "-" {
		t.Errorf("no time: got %s", got)
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	for at, want := range map[time.Time]string{
		now.Add(-time.Hour):         "11:00:00",
		now.Add(-time.Hour).UTC():   "11:00:00",
		now.AddDate(0, 0, 1):        "2026-03-03 12:00:00",
		now.AddDate(-1, 0, 0).UTC(): "2025-03-02 12:00:00",
	} {
		if got := clock(now, at); got != want {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		columns int
		want    string
	}{{0, ""}, {1, "…"}, {3, "ün…"}, {4, "ünïc"}, {9, "ünïc"}} {
		if got := cut("ünïc", tt.columns); got != tt.want {
			t.Errorf("%d: got %q, want %q", tt.columns, got, tt.want)
		}
	}
}
