package healthcheck

import (
	"math"
	"testing"
	"time"
)

const forever = time.Duration(math.MaxInt64)

func TestLadder(t *testing.T) {
	tests := []struct {
		name                    string
		interval, increment, at time.Duration // at: MaxInterval
		k                       int
		want                    time.Duration
	}{
		{"first step", 5 * time.Second, 5 * time.Second, time.Minute, 1, 10 * time.Second},
		{"second step", 5 * time.Second, 5 * time.Second, time.Minute, 2, 15 * time.Second},
		{"ninth step", 5 * time.Second, 5 * time.Second, time.Minute, 9, 50 * time.Second},
		{"eleventh step is the longest", 5 * time.Second, 5 * time.Second, time.Minute, 11, time.Minute},
		{"twelfth step is no longer", 5 * time.Second, 5 * time.Second, time.Minute, 12, time.Minute},
		{"uneven steps are cut off", 5 * time.Second, 7 * time.Second, 20 * time.Second, 3, 20 * time.Second},
		{"no step", 5 * time.Second, 5 * time.Second, time.Minute, 0, 5 * time.Second},
		{"constant delay", 5 * time.Second, 0, time.Minute, 1000, 5 * time.Second},
		{"interval is the longest", time.Minute, 5 * time.Second, time.Minute, 3, time.Minute},
		{"t6550: a short interval and a long first delay", time.Second, 29 * time.Second, time.Minute, 1, 30 * time.Second},
		{"huge count", 5 * time.Second, 5 * time.Second, time.Minute, math.MaxInt, time.Minute},
		{"huge count of tiny steps", 1, 1, forever, math.MaxInt, forever},
		{"huge increment", 5 * time.Second, forever, time.Minute, 1, time.Minute},
		{"huge increment and count", 5 * time.Second, forever, forever, math.MaxInt, forever},
		{"huge interval", forever, 5 * time.Second, forever, 1, forever},
		{"huge interval and increment", forever - 1, forever, forever, 2, forever},
		{"just no overflow", 1, 1, forever, math.MaxInt - 1, forever},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set := Settings{Interval: test.interval, Increment: test.increment, MaxInterval: test.at}
			if got := set.Ladder(test.k); got != test.want {
				t.Errorf("Ladder(%d) = %s, want %s", test.k, got, test.want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	uneven := thresholds(3, 3, 10)
	uneven.Interval, uneven.Increment, uneven.MaxInterval = 2*time.Second, 10*time.Second, 25*time.Second
	never := thresholds(1, 1, 2)
	never.ReadmitAfter = 0
	constant := thresholds(1, 1, 3)
	constant.Increment = 0

	tests := []struct {
		name   string
		set    Settings
		script string
		want   []time.Duration // after each step; -1 for none
	}{
		{"up", defaults(), "pp", seconds(5, 5)},
		{"the default ladder", defaults(), "pffffffffff", seconds(5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 300)},
		{"the default ladder from the start", defaults(), "ffffffffff", seconds(10, 15, 20, 25, 30, 35, 40, 45, 50, 300)},
		{"pending failures", uneven, "pfffff", seconds(2, 2, 2, 12, 22, 25)},
		{"pending passes", uneven, "pffffppp", seconds(2, 2, 2, 12, 22, 2, 2, 2)},
		{"a failure between passes begins the ladder anew", uneven, "pffffpff", seconds(2, 2, 2, 12, 22, 2, 12, 22)},
		{"up again resets the ladder", defaults(), "pfffpf", seconds(5, 10, 15, 20, 5, 10)},
		{"extra failures do not climb", defaults(), "pfyyyf", seconds(5, 10, 10, 10, 10, 15)},
		{"retired for good", never, "ff", []time.Duration{10 * time.Second, -1}},
		{"readmitted by an operator: the ladder begins anew", thresholds(1, 1, 3), "fffoff", seconds(10, 15, 300, 5, 10, 15)},
		{"the last one is held at the longest delay", thresholds(1, 1, 3), "PFFFF", seconds(5, 10, 15, 60, 60)},
		{"the last one is held there without increment too", constant, "PFFFF", seconds(5, 5, 5, 60, 60)},
		{"recalled and held", thresholds(1, 1, 2), "ffcF", seconds(10, 300, 60, 60)},
		{"returned and held", thresholds(1, 1, 2), "fftF", seconds(10, 300, 15, 60)},
		{"never retired: the ladder ends at the longest delay", thresholds(1, 1, 0), "ffffffffffff", seconds(10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 60)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s State
			if d, ok := s.Delay(test.set); d != 0 || !ok {
				t.Errorf("delay of a new target = %s, %v, want 0", d, ok)
			}
			for i, step := range test.script {
				play(&s, test.set, string(step))
				d, ok := s.Delay(test.set)
				if !ok {
					d = -1
				}
				if d != test.want[i] {
					t.Errorf("delay after %s = %s, want %s", test.script[:i+1], d, test.want[i])
				}
			}
		})
	}
}

func TestRetireIn(t *testing.T) {
	slow := thresholds(1, 1, math.MaxInt)
	slow.Increment = 1
	constant := thresholds(1, 1, 10)
	constant.Increment = 0
	huge := thresholds(1, 1, math.MaxInt)
	huge.MaxInterval = forever

	tests := []struct {
		name   string
		set    Settings
		script string
		want   time.Duration // -1 for none
	}{
		// the rest of 10+15+20+25+30+35+40+45+50 after the next check
		{"after the first failure", defaults(), "pf", 260 * time.Second},
		{"after the second failure", defaults(), "pff", 245 * time.Second},
		{"after the eighth failure", defaults(), "pffffffff", 50 * time.Second},
		{"after the ninth failure", defaults(), "pfffffffff", 0},
		{"pending failures count", thresholds(3, 1, 5), "pfff", 15 * time.Second},
		{"pending passes count", thresholds(1, 2, 3), "pffp", 10*time.Second + 15*time.Second},
		{"beyond the longest delay", thresholds(1, 1, 15), "pf", (15 + 20 + 25 + 30 + 35 + 40 + 45 + 50 + 55 + 4*60) * time.Second},
		{"from the longest delay on", thresholds(1, 1, 15), "pffffffffffff", 2 * time.Minute},
		{"constant delay", constant, "pf", 40 * time.Second},
		{"readmitted by an operator", thresholds(1, 1, 3), "fffo", 25 * time.Second},
		{"readmitted in time", thresholds(1, 1, 3), "ffft", 0},
		{"held", thresholds(1, 1, 3), "PFFFFFF", 0},
		{"never", thresholds(1, 1, 0), "f", -1},
		{"unknown", defaults(), "", -1},
		{"up", defaults(), "p", -1},
		{"retired", thresholds(1, 1, 1), "f", -1},
		{"a huge maximum of tiny steps saturates at once", slow, "f", forever},
		{"a huge maximum of huge delays saturates at once", huge, "f", forever},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s State
			play(&s, test.set, test.script)
			d, ok := s.RetireIn(test.set)
			if !ok {
				d = -1
			}
			if d != test.want {
				t.Errorf("RetireIn = %s, want %s", d, test.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	const below = 1 - 1.0/(1<<53) // the largest random number
	tests := []struct {
		name   string
		d      time.Duration
		jitter float64
		r      float64
		want   time.Duration
	}{
		{"none", 5 * time.Second, 0, below, 5 * time.Second},
		{"none of a huge delay", forever, 0, below, forever},
		{"least", 5 * time.Second, 0.1, 0, 4500 * time.Millisecond},
		{"middle", 5 * time.Second, 0.1, 0.5, 5 * time.Second},
		{"most", 5 * time.Second, 0.1, below, 5500*time.Millisecond - 1},
		{"full, least", 5 * time.Second, 1, 0, 0},
		{"full, most", 5 * time.Second, 1, below, 10*time.Second - 1},
		{"huge delay saturates", forever, 0.1, below, forever},
		{"no delay", 0, 1, 0.9, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := spread(test.d, test.jitter, test.r)
			if diff := got - test.want; diff < -1 || diff > 1 { // rounding
				t.Errorf("spread = %d, want %d", got, test.want)
			}
		})
	}
}

func TestSaturation(t *testing.T) {
	tests := []struct {
		name      string
		got, want time.Duration
	}{
		{"sum", add(2, 3), 5},
		{"largest sum", add(forever-3, 3), forever},
		{"sum too large", add(forever-2, 3), forever},
		{"largest sum of two", add(forever, forever), forever},
		{"product", times(3, 4), 12},
		{"product by zero", times(3, 0), 0},
		{"product of zero", times(0, math.MaxInt), 0},
		{"product too large", times(forever/2, 3), forever},
		{"largest product of two", times(forever, math.MaxInt), forever},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%s = %d, want %d", test.name, test.got, test.want)
		}
	}
}

// seconds returns a list of durations.
func seconds(s ...float64) []time.Duration {
	list := make([]time.Duration, len(s))
	for i := range s {
		list[i] = time.Duration(math.Round(s[i] * float64(time.Second)))
	}
	return list
}
