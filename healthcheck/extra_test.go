package healthcheck

import (
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

func TestCutShort(t *testing.T) {
	const takes = 3 * time.Second
	tests := []struct {
		name   string
		script string
		check  func(l *lab, p *pool) // before the reload
		reload float64
		until  float64
		want   []time.Duration
		known  string
	}{
		{
			name: "a first check", script: "f", reload: 1, until: 5,
			want: seconds(0, 1), known: "down 1 14s",
		},
		{
			name: "a scheduled check while up", script: "pf", reload: 9, until: 13,
			want: seconds(0, 8, 9), known: "down 1 22s",
		},
		{
			name: "a scheduled check while down", script: "f", reload: 14, until: 18,
			want: seconds(0, 13, 14), known: "down 2 32s",
		},
		{
			name: "an extra check while up", script: "pf", reload: 5, until: 9,
			check: func(l *lab, p *pool) { l.at(4); p.targets[0].CheckSoon() },
			want:  seconds(0, 4, 5), known: "down 1 18s",
		},
		{
			name: "an extra check while down", script: "f", reload: 5, until: 12,
			check: func(l *lab, p *pool) { l.at(4); p.targets[0].CheckNow() },
			want:  seconds(0, 4, 5), known: "down 1 13s",
		},
		{
			name: "an extra check while retired", script: "f", reload: 50, until: 100,
			check: func(l *lab, p *pool) { l.at(49); p.targets[0].CheckNow() },
			// retired at the end of the third check
			want: seconds(0, 13, 31, 49, 50), known: "retired 3 5m34s",
		},
	}
	for _, test := range tests {
		for variant, lag := range map[string]time.Duration{"": 0, ", returns a bit later": 20 * time.Millisecond} {
			for _, name := range []string{"pool", "new"} {
				t.Run(test.name+variant+", into "+name, func(t *testing.T) {
					inLab(t, func(l *lab) {
						b := l.slow("b", test.script, takes)
						b.lag = lag
						build := func(name string) *pool {
							return &pool{name: name, set: thresholds(1, 1, 3), backends: []*backend{b}, unchecked: []string{"other"}}
						}
						p := build("pool")
						l.start(p)
						if test.check != nil {
							test.check(l, p)
						}
						l.at(test.reload)
						before := p.statuses()
						q := build(name)
						l.reload(q)
						l.at(test.reload + 0.5)
						l.equal("statuses after the reload", q.statuses(), before)
						l.equal("cut short", b.cut, 1)
						l.at(test.until)
						l.equal("known", q.known(0), test.known)
						l.equal("checks", b.checks(), test.want)
					})
				})
			}
		}
	}
}

func TestCutShortByClose(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.slow("b", "pf", 3*time.Second)
		b.lag = time.Second
		p := &pool{set: defaults(), backends: []*backend{b}}
		c := l.start(p)
		l.at(9) // during the second check
		before := c.logged(zapcore.DebugLevel)
		c.close()
		l.at(100)
		l.equal("log after the end", c.logged(zapcore.DebugLevel), before)
		l.equal("checks", b.checks(), seconds(0, 8))
		l.equal("cut short", b.cut, 1)
		c.close() // twice does no harm
		p.targets[0].CheckNow()
		p.targets[0].CheckSoon()
		p.targets[0].Readmit()
		l.equal("asked after the end", p.Ask(nil), false)
	})
}

func TestVoidIsNoResult(t *testing.T) {
	never := thresholds(1, 1, 2)
	never.ReadmitAfter = 0
	tests := []struct {
		name   string
		set    Settings
		script string
		now    float64 // when an operator asks for a check
		until  float64
		want   []time.Duration
		known  string
	}{
		{"first check", defaults(), "vvf", 0, 11, seconds(0, 5, 10), "down 1 20s"},
		{"first check, meanwhile", defaults(), "vvf", 0, 9, seconds(0, 5), "unknown 0 10s"},
		{"scheduled while up", thresholds(2, 1, 10), "pfvp", 0, 11, seconds(0, 5, 10), "up 1 15s"},
		{"scheduled while down", defaults(), "ffv", 0, 26, seconds(0, 10, 25), "down 2 30s"},
		{"extra while up", defaults(), "pv", 3, 4, seconds(0, 3), "up 0 5s"},
		{"extra while down", defaults(), "fv", 3, 4, seconds(0, 3), "down 1 10s"},
		{"extra while retired", thresholds(1, 1, 2), "ffv", 15, 100, seconds(0, 10, 15), "retired 2 5m10s"},
		{"extra while retired for good", never, "ffv", 15, 1000, seconds(0, 10, 15), "retired 2 -1ns"},
		{"returned", thresholds(1, 1, 2), "ffvf", 0, 316, seconds(0, 10, 310, 315), "retired 2 10m15s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				b := l.backend("b", test.script)
				p := &pool{set: test.set, backends: []*backend{b}, unchecked: []string{"other"}}
				l.start(p)
				if test.now > 0 {
					l.at(test.now)
					p.targets[0].CheckNow()
				}
				l.at(test.until)
				l.equal("known", p.known(0), test.known)
				l.equal("checks", b.checks(), test.want)
			})
		})
	}
}

func TestExtraChecks(t *testing.T) {
	tests := []struct {
		name   string
		set    Settings
		script string
		takes  time.Duration
		now    float64 // when an operator asks for a check
		until  float64
		want   []time.Duration
		known  string
		last   float64 // start of the newest result
	}{
		{
			name: "fails while up", set: defaults(), script: "pf", now: 3,
			until: 4, want: seconds(0, 3), known: "down 1 13s", last: 3,
		},
		{
			name: "fails while up, below health_fails", set: thresholds(3, 1, 10), script: "pf", now: 3,
			until: 14, want: seconds(0, 3, 8, 13), known: "down 3 23s", last: 13,
		},
		{
			name: "passes while up", set: defaults(), script: "p", now: 3,
			until: 9, want: seconds(0, 3, 8), known: "up 0 13s", last: 8,
		},
		{
			name: "fails while down", set: defaults(), script: "f", now: 3,
			until: 24, want: seconds(0, 3, 10), known: "down 2 25s", last: 10,
		},
		{
			name: "fails while down, shown", set: defaults(), script: "f", now: 3,
			until: 9, want: seconds(0, 3), known: "down 1 10s", last: 3,
		},
		{
			name: "passes while down", set: defaults(), script: "fp", now: 3,
			until: 7, want: seconds(0, 3), known: "up 0 8s", last: 3,
		},
		{
			name: "passes while down, below health_passes", set: thresholds(1, 2, 10), script: "fp", now: 3,
			until: 7, want: seconds(0, 3), known: "down 0 8s", last: 3,
		},
		{
			name: "fails while retired", set: thresholds(1, 1, 2), script: "f", now: 15,
			until: 100, want: seconds(0, 10, 15), known: "retired 2 5m10s", last: 15,
		},
		{
			name: "passes while retired", set: thresholds(1, 1, 2), script: "ffp", now: 15,
			until: 16, want: seconds(0, 10, 15), known: "up 0 20s", last: 15,
		},
		{
			name: "passes while retired, below health_passes", set: thresholds(1, 2, 2), script: "ffp", now: 15,
			until: 16, want: seconds(0, 10, 15), known: "down 0 20s", last: 15,
		},
		{
			name: "under way at the next scheduled check: it is that check", set: defaults(), script: "f",
			takes: 3 * time.Second, now: 12, until: 16, want: seconds(0, 12), known: "down 2 30s", last: 12,
		},
		{
			name: "asked for during a check that fails", set: defaults(), script: "f",
			takes: 3 * time.Second, now: 14, until: 30, want: seconds(0, 13), known: "down 2 31s", last: 13,
		},
		{
			name: "asked for during a check that passes", set: defaults(), script: "p",
			takes: 3 * time.Second, now: 9, until: 15, want: seconds(0, 8, 11), known: "up 0 19s", last: 11,
		},
		{
			name: "under way at the readmission: one more check", set: thresholds(1, 1, 2), script: "f",
			takes: 3 * time.Second, now: 315, until: 322, want: seconds(0, 13, 315, 318), known: "retired 2 10m21s", last: 318,
		},
		{
			name: "under way at the readmission and passes", set: thresholds(1, 1, 2), script: "ffp",
			takes: 3 * time.Second, now: 315, until: 322, want: seconds(0, 13, 315), known: "up 0 5m23s", last: 315,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				b := l.slow("b", test.script, test.takes)
				p := &pool{set: test.set, backends: []*backend{b}, unchecked: []string{"other"}}
				l.start(p)
				l.at(test.now)
				p.targets[0].CheckNow()
				l.at(test.until)
				l.equal("known", p.known(0), test.known)
				l.equal("checks", b.checks(), test.want)
				l.equal("newest result", l.when(p.targets[0].Info().Last.Time), seconds(test.last)[0])
				checkRules(l, p)
			})
		})
	}
}

func TestReadmit(t *testing.T) {
	never := thresholds(1, 1, 2)
	never.ReadmitAfter = 0
	inLab(t, func(l *lab) {
		b := l.backend("b", "f")
		p := &pool{set: never, backends: []*backend{b}, unchecked: []string{"other"}}
		c := l.start(p)
		p.targets[0].Readmit() // not retired
		l.at(1000)
		l.equal("known", p.known(0), "retired 2 -1ns")
		l.equal("checks", b.checks(), seconds(0, 10))
		p.targets[0].Readmit()
		l.at(1001)
		l.equal("known", p.known(0), "down 1 16m50s")
		l.at(1011)
		l.equal("known", p.known(0), "retired 2 -1ns")
		l.equal("checks", b.since(11), seconds(1000, 1010))
		l.equal("transitions", c.logged(zapcore.InfoLevel), `
	0s warn: b unknown>down
	10s error: b down>retired
	16m40s info: b retired>down`)
		l.equal("events", c.told(), `
	0s unhealthy: b unknown>down
	10s retired: b down>retired
	16m40s readmitted: b retired>down`)
	})
	// during an extra check, which may have passed the point of failure
	inLab(t, func(l *lab) {
		b := l.slow("b", "f", 3*time.Second)
		p := &pool{set: never, backends: []*backend{b}, unchecked: []string{"other"}}
		l.start(p)
		l.at(100)
		p.targets[0].CheckNow()
		l.at(101)
		p.targets[0].Readmit()
		l.at(107)
		l.equal("known", p.known(0), "down 1 1m56s")
		l.equal("checks", b.checks(), seconds(0, 13, 100, 103))
	})
}

// A request that could not connect asks for a check.

func TestCheckSoon(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.backend("b", "p")
		p := &pool{set: hourly(), backends: []*backend{b}}
		l.start(p)
		l.at(1)
		for range 100 {
			p.targets[0].CheckSoon()
		}
		l.at(1.1)
		p.targets[0].CheckSoon()
		l.at(2)
		p.targets[0].CheckSoon()
		l.at(2.4)
		p.targets[0].CheckSoon()
		l.at(10)
		l.equal("checks", b.checks(), seconds(0, 1, 1.25, 2, 2.4))
		l.equal("known", p.known(0), "up 0 1h0m2.4s")

		for range 95 {
			p.targets[0].CheckSoon()
			time.Sleep(10 * time.Millisecond)
		}
		l.equal("checks", b.since(10), seconds(10, 10.25, 10.5, 10.75))
	})
}

// An operator does not wait for what a dial error has asked for later.
func TestCheckNowIsNotPutOff(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.backend("b", "p")
		p := &pool{set: hourly(), backends: []*backend{b}}
		l.start(p)
		l.at(1)
		p.targets[0].CheckSoon()
		l.at(1.1)
		p.targets[0].CheckSoon()
		l.at(1.15)
		p.targets[0].CheckNow()
		l.at(10)
		l.equal("checks", b.checks(), seconds(0, 1, 1.15))
	})
}

func TestCheckSoonTakesAKilledBackendOut(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "pf")
		p := &pool{set: defaults(), backends: []*backend{a, b}}
		c := l.start(p)
		l.at(2)
		for range 10 {
			p.targets[1].CheckSoon()
		}
		l.at(2)
		l.equal("statuses", p.statuses(), "up down")
		l.at(11)
		l.equal("checks", b.checks(), seconds(0, 2))
		l.equal("loud lines", c.logged(zapcore.WarnLevel), "\n\t2s warn: b up>down")
	})
}

func TestCheckSoonDoesNothingUnlessUp(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.slow("a", "p", time.Second), l.slow("b", "f", time.Second)
		p := &pool{set: thresholds(1, 1, 2), backends: []*backend{a, b}}
		l.start(p)
		for at := range 30 { // unknown, down, retired
			l.at(float64(at) + 0.5)
			p.targets[1].CheckSoon()
		}
		l.equal("statuses", p.statuses(), "up retired")
		l.equal("checks", b.checks(), seconds(0, 11))
	})
}

func TestCheckSoonDuringACheck(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   []time.Duration
		known  string
	}{
		{"that passes: one more", "p", seconds(0, 7, 9), "up 0 16s"},
		{"that fails: no more", "pf", seconds(0, 7), "down 1 19s"},
		{"that passes: the one more fails", "ppf", seconds(0, 7, 9), "down 1 21s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				b := l.slow("b", test.script, 2*time.Second)
				p := &pool{set: defaults(), backends: []*backend{b}}
				l.start(p)
				l.at(8)
				for range 10 {
					p.targets[0].CheckSoon()
				}
				l.at(15)
				l.equal("checks", b.checks(), test.want)
				l.equal("known", p.known(0), test.known)
			})
		})
	}
}
