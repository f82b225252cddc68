package healthcheck

import (
	"math/big"
	"slices"
	"testing"
	"time"
)

// history is the contract told another way: it remembers all results that
// counted, and looks back at them each time.
type history struct {
	set     Settings
	results []bool // passes and failures that counted, the oldest first
	fell    int    // which of them took the target down
	status  Status
	told    bool // of a retirement since it was last up
}

// alike returns how many of the newest results are alike.
func alike(results []bool, pass bool) int {
	n := 0
	for _, r := range slices.Backward(results) {
		if r != pass {
			break
		}
		n++
	}
	return n
}

func (h *history) failures() int { return alike(h.results, false) }
func (h *history) passes() int   { return alike(h.results, true) }
func (h *history) maximum() int  { return max(h.set.MaxFailures, h.set.Fails) }

func (h *history) result(r Result) (counted, loud bool) {
	out := h.status == Down || h.status == Retired
	if out && r.Extra && !r.Pass {
		return false, false
	}
	h.results = append(h.results, r.Pass)
	if r.Pass {
		if !out || h.passes() >= h.set.Passes {
			h.status, h.told = Up, false
		} else {
			h.status = Down
		}
		return true, false
	}
	if h.status == Unknown || h.status == Up && h.failures() >= h.set.Fails {
		h.status, h.fell = Down, len(h.results)-1
	}
	if h.status == Down && r.Others && h.set.MaxFailures > 0 && h.failures() >= h.maximum() {
		h.status = Retired
		loud = !h.told
		h.told = true
	}
	return true, loud
}

func (h *history) readmit() {
	if h.status == Retired {
		h.status, h.results, h.fell = Down, nil, 0
	}
}

func (h *history) returns() {
	if h.status == Retired {
		h.status, h.results, h.fell = Down, make([]bool, h.maximum()-1), 0
	}
}

func (h *history) recall() {
	if h.status == Retired {
		h.status = Down
	}
}

// delay returns the delay after a result that counted, -1 for none.
func (h *history) delay() time.Duration {
	switch {
	case h.status == Retired && h.set.ReadmitAfter == 0:
		return -1
	case h.status == Retired:
		return h.set.ReadmitAfter
	case h.status == Up || h.passes() > 0:
		return h.set.Interval
	case h.set.MaxFailures > 0 && h.failures() >= h.maximum():
		return h.set.MaxInterval
	}
	d := h.set.Interval
	for range alike(h.results[h.fell:], false) {
		d = min(d+h.set.Increment, h.set.MaxInterval)
	}
	return d
}

// settingsFrom makes settings of seven bytes.
func settingsFrom(b []byte) Settings {
	set := Settings{
		Interval:  time.Duration(b[0]) + 1,
		Increment: time.Duration(b[1]),
		Passes:    int(b[3]%4) + 1,
		Fails:     int(b[4]%6) + 1,
		// 0 is never
		MaxFailures:  int(b[5] % 13),
		ReadmitAfter: time.Duration(b[6]) * 100,
	}
	set.MaxInterval = set.Interval + time.Duration(b[2])*4
	return set
}

// FuzzState plays a game of results and readmissions, a byte per step, and
// compares the state with the history after each.
func FuzzState(f *testing.F) {
	const (
		pass = 1 << iota
		extra
		others
	)
	const readmit, returns, recall = 8, 9, 10
	defaults := []byte{4, 5, 14, 0, 0, 10, 3}
	for _, steps := range [][]byte{
		{pass, others, others, others, others, others, others, others, others, others, others, returns, others, pass},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, others, recall, 0, others},
		{others, extra, pass | extra, others, readmit, others},
	} {
		f.Add(append(slices.Clone(defaults), steps...))
		f.Add(append([]byte{1, 1, 1, 2, 2, 2, 0}, steps...))
		f.Add(append([]byte{1, 0, 9, 1, 3, 0, 1}, steps...))
	}
	f.Fuzz(func(t *testing.T, game []byte) {
		if len(game) < 7 || len(game) > 200 {
			return
		}
		set := settingsFrom(game)
		var s State
		h := &history{set: set}
		for i, step := range game[7:] {
			before := s
			switch step % 11 {
			case readmit:
				s.Readmit()
				h.readmit()
			case returns:
				s.Return(set)
				h.returns()
			case recall:
				s.Recall()
				h.recall()
			default:
				r := Result{Pass: step%11&pass != 0, Extra: step%11&extra != 0, Others: step%11&others != 0}
				e := s.Apply(set, r)
				counted, loud := h.result(r)
				if e.Counted != counted || e.Loud != loud || e.From != before.Status || e.To != s.Status {
					t.Fatalf("step %d, %+v: effect %+v, want counted %v, loud %v", i, r, e, counted, loud)
				}
				checkResult(t, set, before, s, r, e)
				if d, ok := s.Delay(set); counted && (ok != (h.delay() >= 0) || ok && d != h.delay()) {
					t.Fatalf("step %d, %+v: delay %d, %v, want %d; %+v", i, r, d, ok, h.delay(), s)
				}
			}
			if s.Status != h.status || s.Failures != h.failures() || s.Passes != h.passes() {
				t.Fatalf("step %d: %+v, want %s, %d failures, %d passes", i, s, h.status, h.failures(), h.passes())
			}
			checkState(t, set, s)
		}
	})
}

// checkResult checks what holds for every result.
func checkResult(t *testing.T, set Settings, before, after State, r Result, e Effect) {
	t.Helper()
	limit := max(set.MaxFailures, set.Fails)
	switch {
	case !e.Counted && after != before:
		t.Fatalf("a result that does not count changed %+v to %+v", before, after)
	case e.Counted && r.Pass && (after.Failures != 0 || after.Passes == 0 || after.Status == Retired):
		t.Fatalf("after a pass: %+v", after)
	case e.Counted && !r.Pass && (after.Passes != 0 || after.Failures == 0):
		t.Fatalf("after a failure: %+v", after)
	case after.Status == Unknown:
		t.Fatal("unknown after a result")
	case before.Status != Retired && after.Status == Retired && (!r.Others || set.MaxFailures == 0 || after.Failures < limit):
		t.Fatalf("retired by %+v after %d failures of %d", r, after.Failures, limit)
	case before.Status == Down && after.Status == Down && e.Counted && !r.Pass && r.Others && set.MaxFailures > 0 && after.Failures >= limit:
		t.Fatalf("not retired after %d failures of %d", after.Failures, limit)
	case e.Loud && (before.Announced || after.Status != Retired):
		t.Fatalf("loud from %+v to %+v", before, after)
	}
}

// checkState checks what holds for every state.
func checkState(t *testing.T, set Settings, s State) {
	t.Helper()
	if s.Failures > 0 && s.Passes > 0 || s.Failures < 0 || s.Passes < 0 || s.Step < 0 {
		t.Fatalf("runs: %+v", s)
	}
	if s.Status == Up && (s.Failures >= set.Fails || s.Announced) {
		t.Fatalf("up: %+v", s)
	}
	d, ok := s.Delay(set)
	switch s.Status {
	case Up, Down:
		if !ok || d < set.Interval || d > set.MaxInterval {
			t.Fatalf("delay %d, %v of %+v is not from %d to %d", d, ok, s, set.Interval, set.MaxInterval)
		}
	case Retired:
		if ok != (set.ReadmitAfter > 0) {
			t.Fatalf("delay %d, %v of a retired one", d, ok)
		}
	}
	in, ok := s.RetireIn(set)
	if ok != (s.Status == Down && set.MaxFailures > 0) || in < 0 {
		t.Fatalf("retired in %d, %v: %+v", in, ok, s)
	}
	if !ok {
		return
	}
	// the same by failing on
	var sum time.Duration
	for play := s; ; {
		if play.Apply(set, Result{Others: true}); play.Status == Retired {
			break
		}
		d, _ := play.Delay(set)
		sum += d
	}
	if diff := sum - in; diff < 0 || diff > time.Duration(set.MaxFailures+set.Fails) { // rounded down
		t.Fatalf("retired in %d, want %d: %+v", in, sum, s)
	}
}

// FuzzDelay compares the ladder with the formula in numbers without limits.
func FuzzDelay(f *testing.F) {
	f.Add(int64(5*time.Second), int64(5*time.Second), int64(time.Minute), int64(3), int64(10), 0.1, 0.7)
	f.Add(int64(forever), int64(forever), int64(forever), int64(forever), int64(forever), 1.0, 0.999)
	f.Add(int64(1), int64(1), int64(forever), int64(forever), int64(forever), 1.0, 0.5)
	f.Add(int64(1), int64(0), int64(forever), int64(1), int64(forever), 0.0, 0.0)
	f.Fuzz(func(t *testing.T, interval, rung, longest, k, failures int64, jitter, r float64) {
		if interval <= 0 || rung < 0 || longest < interval || k < 0 || failures <= 0 {
			return
		}
		set := Settings{
			Interval: time.Duration(interval), Increment: time.Duration(rung), MaxInterval: time.Duration(longest),
			Fails: 1, MaxFailures: int(failures),
		}
		got := set.Ladder(int(k))
		want := new(big.Int).Mul(big.NewInt(k), big.NewInt(rung))
		want.Add(want, big.NewInt(interval))
		if want.Cmp(big.NewInt(longest)) > 0 {
			want.SetInt64(longest)
		}
		if want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Errorf("Ladder(%d) = %d, want %s", k, got, want)
		}
		if next := set.Ladder(increment(int(k))); next < got {
			t.Errorf("Ladder(%d) = %d, the next one is %d", k, got, next)
		}

		down := State{Status: Down, Failures: 1, Step: int(min(k, forever.Nanoseconds()-1))}
		in, ok := down.RetireIn(set)
		if left := failures - 2; !ok || in < 0 || left > 0 && in < min(times(set.Interval, int(left)), forever) {
			t.Errorf("RetireIn = %d, %v", in, ok)
		}
		if most := times(set.MaxInterval, int(max(failures-2, 0))); in > most {
			t.Errorf("RetireIn = %d, above %d", in, most)
		}

		if jitter >= 0 && jitter <= 1 && r >= 0 && r < 1 {
			d := time.Duration(interval)
			got := spread(d, jitter, r)
			slack := 2 + float64(d)*1e-12 // rounding
			if low := float64(d)*(1-jitter) - slack; float64(got) < low || got < 0 {
				t.Errorf("spread(%d, %g, %g) = %d, below %g", d, jitter, r, got, low)
			}
			if high := float64(d)*(1+jitter) + slack; float64(got) > high {
				t.Errorf("spread(%d, %g, %g) = %d, above %g", d, jitter, r, got, high)
			}
		}
	})
}
