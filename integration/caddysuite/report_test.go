package main

import (
	"strings"
	"testing"
)

// events returns the outcomes of a run in which each test, given as
// "name action", prints its name and ends so.
func events(t *testing.T, tests ...string) outcomes {
	t.Helper()
	var lines strings.Builder
	for _, test := range tests {
		name, action, _ := strings.Cut(test, " ")
		lines.WriteString(`{"Action":"run","Test":"` + name + `"}` + "\n")
		lines.WriteString(`{"Action":"output","Test":"` + name + `","Output":"output of ` + name + `\n"}` + "\n")
		if action != "" {
			lines.WriteString(`{"Action":"` + action + `","Test":"` + name + `"}` + "\n")
		}
	}
	run, err := readEvents(strings.NewReader(lines.String()), func(line string) {
		t.Errorf("shows %q", line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestReport(t *testing.T) {
	stock := []string{"A pass", "B pass", "B/x pass", "B/y pass", "C skip", "D fail"}
	for _, tc := range []struct {
		name    string
		renamed []string
		least   int
		want    []string // parts of the report
		not     []string // what is no part of it
		err     string
	}{
		{
			name:    "same",
			renamed: stock,
			want:    []string{"stock: 3 of 5 passed\n", "stock: C skipped\n", "stock: D failed\n", "renamed: 3 of 5 passed\n", "\n3 passed, 0 failed\n"},
			not:     []string{"output of A"},
		},
		{
			name:    "better than stock",
			renamed: []string{"A pass", "B pass", "B/x pass", "B/y pass", "C pass", "D pass"},
			want:    []string{"\n3 passed, 0 failed\n"},
		},
		{
			name:    "subtest fails",
			renamed: []string{"A pass", "B fail", "B/x fail", "B/y pass", "C skip", "D fail"},
			want:    []string{"\nB/x: stock passed, renamed failed\noutput of B/x\n", "\n2 passed, 1 failed\n"},
			not:     []string{"output of B\n"},
			err:     errDiffers.Error(),
		},
		{
			name:    "parent fails by itself",
			renamed: []string{"A pass", "B fail", "B/x pass", "B/y pass", "C skip", "D fail"},
			want:    []string{"\nB: stock passed, renamed failed\noutput of B\n", "\n3 passed, 1 failed\n"},
			err:     errDiffers.Error(),
		},
		{
			name:    "skipped, missing, unfinished",
			renamed: []string{"A skip", "B", "B/x", "D fail"},
			want: []string{
				"\nA: stock passed, renamed skipped\n", "\nB/x: stock passed, renamed unfinished\n",
				"\nB/y: stock passed, renamed missing\n", "\n0 passed, 3 failed\n",
			},
			err: errDiffers.Error(),
		},
		{
			name:    "too few tests",
			renamed: stock,
			least:   6,
			err:     "only 5 tests ran, of at least 6",
		},
		{
			name:    "too few passes",
			renamed: stock,
			least:   5,
			err:     "only 3 tests passed, of at least 5",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			err := report(&out, events(t, stock...), events(t, tc.renamed...), tc.least)
			if got := errorText(err); got != tc.err {
				t.Errorf("got error %q, want %q", got, tc.err)
			}
			for _, part := range tc.want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("no %q in the report:\n%s", part, out.String())
				}
			}
			for _, part := range tc.not {
				if strings.Contains(out.String(), part) {
					t.Errorf("%q in the report:\n%s", part, out.String())
				}
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReadEventsShowsThePackage(t *testing.T) {
	const lines = `{"Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"Action":"output","Output":"PASS\n"}
{"Action":"output","Output":"ok  \tp\t1s\n"}
{"Action":"output","Output":"FAIL\tp\t1s\n"}
{"Action":"output","Output":"log\n"}
no JSON
`
	var shown []string
	run, err := readEvents(strings.NewReader(lines), func(line string) { shown = append(shown, line) })
	if err != nil || len(run) != 0 {
		t.Errorf("got %v, %v", run, err)
	}
	want := "x.go:1: undefined: y\nok  \tp\t1s\nFAIL\tp\t1s\nno JSON\n"
	if got := strings.Join(shown, ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReplace(t *testing.T) {
	run := events(t, "A pass", "B fail", "B/x skip", "B/y fail", "C pass")
	if got, want := strings.Join(deepest(run.missed()), " "), "B/x B/y"; got != want {
		t.Errorf("missed %s, want %s", got, want)
	}
	run.replace("B/x", events(t, "B pass", "B/x pass"))
	run.replace("B/y", events(t, "B fail", "B/y fail"))
	run.replace("B/y", events(t, "B pass", "B/y pass"))
	if got := run.missed(); len(got) != 0 {
		t.Errorf("still missed: %s", got)
	}
	var out strings.Builder
	summarize(&out, "renamed", run)
	want := "renamed: 4 of 4 passed\n" +
		"renamed: B/x did not pass at first, and then passed\n" +
		"renamed: B/y did not pass at first, and then passed\n"
	if got := out.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestOnly(t *testing.T) {
	if got, want := only("A/b.c_(d)/#01"), `^A$/^b\.c_\(d\)$/^#01$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
