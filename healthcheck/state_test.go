package healthcheck

import (
	"math"
	"strings"
	"testing"
	"time"
)

// defaults are the settings of a pool without any option, but without jitter.
func defaults() Settings {
	set := new(Config).Settings()
	set.Jitter = 0
	return set
}

// thresholds are the defaults with other thresholds.
func thresholds(fails, passes, maxFailures int) Settings {
	set := defaults()
	set.Fails, set.Passes, set.MaxFailures = fails, passes, maxFailures
	return set
}

// play applies a script to s and returns a letter per step for the status:
// ? unknown, u up, d down, r retired, R retired and loud. The script is made
// of
//
//	p, f   a pass, a failure, with others in rotation
//	P, F   the same without others
//	x, y   an extra pass, an extra failure
//	o      readmitted by an operator
//	t      readmitted because the time is over
//	c      recalled
func play(s *State, set Settings, script string) string {
	var trace strings.Builder
	for _, c := range script {
		var e Effect
		switch c {
		case 'p', 'f', 'P', 'F', 'x', 'y':
			e = s.Apply(set, Result{
				Pass:   strings.ContainsRune("pPx", c),
				Extra:  strings.ContainsRune("xy", c),
				Others: !strings.ContainsRune("PF", c),
			})
		case 'o':
			s.Readmit()
		case 't':
			s.Return(set)
		case 'c':
			s.Recall()
		default:
			panic("unknown step " + string(c))
		}
		switch {
		case e.Loud:
			trace.WriteByte('R')
		default:
			trace.WriteByte("?udr"[s.Status])
		}
	}
	return trace.String()
}

func TestStatus(t *testing.T) {
	tests := []struct {
		name     string
		set      Settings
		script   string
		want     string
		failures int
		passes   int
	}{
		// rule 1
		{name: "a first pass decides alone", set: thresholds(3, 3, 10), script: "p", want: "u", passes: 1},
		{name: "a first failure decides alone", set: thresholds(3, 3, 10), script: "f", want: "d", failures: 1},
		{name: "a first result asked for decides too", set: thresholds(3, 3, 10), script: "y", want: "d", failures: 1},
		{name: "a first pass asked for decides too", set: thresholds(3, 3, 10), script: "x", want: "u", passes: 1},
		{name: "after a first failure health_passes count", set: thresholds(1, 2, 10), script: "fpp", want: "ddu", passes: 2},

		// rule 2
		{name: "health_fails", set: thresholds(3, 1, 10), script: "pfff", want: "uuud", failures: 3},
		{name: "a pass ends a run of failures", set: thresholds(3, 1, 10), script: "pffpff", want: "uuuuuu", failures: 2},
		{name: "extra failures count while up", set: thresholds(3, 1, 10), script: "pyfy", want: "uuud", failures: 3},
		{name: "extra passes count while up", set: thresholds(2, 1, 10), script: "pfxf", want: "uuuu", failures: 1},

		// rule 3
		{name: "health_passes", set: thresholds(1, 3, 10), script: "pfppp", want: "udddu", passes: 3},
		{name: "a failure ends a run of passes", set: thresholds(1, 2, 10), script: "pfpfpp", want: "uddddu", passes: 2},
		{name: "extra passes count while down", set: thresholds(1, 2, 10), script: "pfpx", want: "uddu", passes: 2},
		{name: "extra failures do not count while down", set: thresholds(1, 1, 3), script: "pfyyyyyy", want: "uddddddd", failures: 1},
		{name: "extra failures do not end a run of passes", set: thresholds(1, 2, 10), script: "pfpyp", want: "udddu", passes: 2},

		// rule 4
		{name: "ten failures retire", set: defaults(), script: "pffffffffff", want: "udddddddddR", failures: 10},
		{name: "ten failures from the start retire", set: defaults(), script: "ffffffffff", want: "dddddddddR", failures: 10},
		{name: "pending failures are part of the run", set: thresholds(3, 1, 5), script: "pfffff", want: "uuuddR", failures: 5},
		{name: "not retired before it is down", set: thresholds(4, 1, 2), script: "pffff", want: "uuuuR", failures: 4},
		{name: "a first failure below health_fails does not retire", set: thresholds(3, 1, 1), script: "fff", want: "ddR", failures: 3},
		{name: "a maximum of one", set: thresholds(1, 1, 1), script: "pf", want: "uR", failures: 1},
		{name: "a maximum of one, never up", set: thresholds(1, 1, 1), script: "f", want: "R", failures: 1},
		{name: "never retired", set: thresholds(1, 1, 0), script: "f" + strings.Repeat("f", 100), want: "d" + strings.Repeat("d", 100), failures: 101},
		{name: "a pass ends the run before the maximum", set: thresholds(1, 2, 3), script: "ffpffpp", want: "ddddddu", passes: 2},
		{name: "an extra failure of a retired one is only shown", set: thresholds(1, 1, 2), script: "ffy", want: "dRr", failures: 2},
		{name: "an extra pass of a retired one counts", set: thresholds(1, 1, 2), script: "ffx", want: "dRu", passes: 1},
		{name: "an extra pass of a retired one is the first of two", set: thresholds(1, 2, 2), script: "ffxp", want: "dRdu", passes: 2},
		{name: "readmitted by an operator: a run of zero", set: thresholds(1, 1, 3), script: "fffofff", want: "ddRdddr", failures: 3},
		{name: "readmitted in time: a run one below the maximum", set: thresholds(1, 1, 3), script: "ffftf", want: "ddRdr", failures: 3},
		{name: "readmitted in time: state before the check", set: thresholds(1, 1, 3), script: "ffft", want: "ddRd", failures: 2},
		{name: "readmitted in time and well", set: thresholds(1, 1, 3), script: "ffftp", want: "ddRdu", passes: 1},
		{name: "readmitted in time, the maximum below health_fails", set: thresholds(4, 1, 2), script: "pfffftf", want: "uuuuRdr", failures: 4},
		{name: "readmitting any other does nothing", set: thresholds(1, 1, 3), script: "otcpotcfotc", want: "???uuuudddd", failures: 1},
		{name: "loud again once it was up", set: thresholds(1, 1, 2), script: "fftfpff", want: "dRdrudR", failures: 2},
		{name: "still quiet after passes that did not bring it up", set: thresholds(1, 2, 2), script: "ffxff", want: "dRddr", failures: 2},

		// rule 5
		{name: "the last one is never retired", set: thresholds(1, 1, 2), script: "PFFFF", want: "udddd", failures: 4},
		{name: "the first failure once another is back retires", set: thresholds(1, 1, 2), script: "PFFFFf", want: "uddddR", failures: 5},
		{name: "recalled: the run is kept", set: thresholds(1, 1, 2), script: "ffc", want: "dRd", failures: 2},
		{name: "recalled: held while it is the last", set: thresholds(1, 1, 2), script: "ffcFF", want: "dRddd", failures: 4},
		{name: "recalled: retired quietly once another is back", set: thresholds(1, 1, 2), script: "ffcFf", want: "dRddr", failures: 4},
		{name: "recalled and well", set: thresholds(1, 1, 2), script: "ffcP", want: "dRdu", passes: 1},

		// saturation
		{name: "huge thresholds", set: thresholds(math.MaxInt, math.MaxInt, math.MaxInt), script: "pfff", want: "uuuu", failures: 3},
		{name: "huge passes", set: thresholds(1, math.MaxInt, 1), script: "pFpp", want: "uddd", passes: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s State
			if got := play(&s, test.set, test.script); got != test.want {
				t.Errorf("statuses after %s = %s, want %s", test.script, got, test.want)
			}
			if s.Failures != test.failures || s.Passes != test.passes {
				t.Errorf("failures, passes = %d, %d, want %d, %d", s.Failures, s.Passes, test.failures, test.passes)
			}
		})
	}
}

func TestEffect(t *testing.T) {
	set := thresholds(1, 1, 2)
	tests := []struct {
		name   string
		before string
		result Result
		want   Effect
	}{
		{"first pass", "", Result{Pass: true}, Effect{From: Unknown, To: Up, Counted: true, FirstPass: true}},
		{"first failure", "", Result{}, Effect{From: Unknown, To: Down, Counted: true}},
		{"second pass", "p", Result{Pass: true}, Effect{From: Up, To: Up, Counted: true}},
		{"first pass after failures", "f", Result{Pass: true}, Effect{From: Down, To: Up, Counted: true, FirstPass: true}},
		{"pass after failures", "pf", Result{Pass: true}, Effect{From: Down, To: Up, Counted: true}},
		{"first pass, asked for", "f", Result{Pass: true, Extra: true}, Effect{From: Down, To: Up, Counted: true, FirstPass: true}},
		{"failure", "p", Result{Others: true}, Effect{From: Up, To: Down, Counted: true}},
		{"failure, asked for, while up", "p", Result{Extra: true}, Effect{From: Up, To: Down, Counted: true}},
		{"failure, asked for, while down", "f", Result{Extra: true, Others: true}, Effect{From: Down, To: Down}},
		{"failure, asked for, while retired", "ff", Result{Extra: true, Others: true}, Effect{From: Retired, To: Retired}},
		{"retirement", "f", Result{Others: true}, Effect{From: Down, To: Retired, Counted: true, Loud: true}},
		{"retirement put off", "f", Result{}, Effect{From: Down, To: Down, Counted: true}},
		{"repeated retirement", "fft", Result{Others: true}, Effect{From: Down, To: Retired, Counted: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s State
			play(&s, set, test.before)
			before := s
			got := s.Apply(set, test.result)
			if got != test.want {
				t.Errorf("effect = %+v, want %+v", got, test.want)
			}
			if !got.Counted && s != before {
				t.Errorf("state = %+v after a result that does not count, before it %+v", s, before)
			}
		})
	}
}

// Thresholds are those of the config at the time of the result.
func TestThresholdsChange(t *testing.T) {
	tests := []struct {
		name          string
		before, after Settings
		first, then   string
		want          string
	}{
		{"health_fails lowered below the run", thresholds(5, 1, 10), thresholds(2, 1, 10), "pfff", "f", "d"},
		{"health_fails raised above the run", thresholds(3, 1, 10), thresholds(5, 1, 10), "pff", "fff", "uud"},
		{"health_passes lowered below the run", thresholds(1, 5, 10), thresholds(1, 2, 10), "pfpp", "p", "u"},
		{"health_max_failures lowered below the run", thresholds(1, 1, 10), thresholds(1, 1, 2), "fffff", "f", "R"},
		{"health_max_failures raised", thresholds(1, 1, 3), thresholds(1, 1, 5), "ff", "fff", "ddR"},
		{"health_max_failures switched off while retired", thresholds(1, 1, 2), thresholds(1, 1, 0), "ff", "tff", "ddd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s State
			play(&s, test.before, test.first)
			if got := play(&s, test.after, test.then); got != test.want {
				t.Errorf("statuses = %s, want %s", got, test.want)
			}
		})
	}
}

// Runs and steps stop at the largest number.
func TestStateSaturates(t *testing.T) {
	full := State{Status: Down, Failures: math.MaxInt, Step: math.MaxInt}
	full.Apply(thresholds(1, 1, 0), Result{})
	if full.Failures != math.MaxInt || full.Step != math.MaxInt {
		t.Errorf("failures, step = %d, %d", full.Failures, full.Step)
	}
	if d, ok := full.Delay(defaults()); d != time.Minute || !ok {
		t.Errorf("delay = %s, %v, want 1m", d, ok)
	}

	up := State{Status: Up, Passes: math.MaxInt}
	up.Apply(defaults(), Result{Pass: true})
	if up.Passes != math.MaxInt {
		t.Errorf("passes = %d", up.Passes)
	}

	// the largest maximum can be reached
	last := State{Status: Down, Failures: math.MaxInt - 1}
	last.Apply(thresholds(1, 1, math.MaxInt), Result{Others: true})
	if last.Status != Retired {
		t.Errorf("status = %s, want retired", last.Status)
	}
	last.Return(thresholds(1, 1, math.MaxInt))
	if last.Failures != math.MaxInt-1 {
		t.Errorf("failures = %d, want one below the maximum", last.Failures)
	}
}

func TestStatusString(t *testing.T) {
	for status, want := range map[Status]string{
		Unknown: "unknown", Up: "up", Down: "down", Retired: "retired", 9: "Status(9)",
	} {
		if got := status.String(); got != want {
			t.Errorf("Status(%d) = %q, want %q", status, got, want)
		}
	}
}
