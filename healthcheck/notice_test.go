package healthcheck

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The first result of a target that has never been healthy.
func TestC6419E4942FirstResultIsTold(t *testing.T) {
	for script, want := range map[string][2]string{
		"p": {"0s info: b unknown>up", "0s healthy: b unknown>up"},
		"f": {"0s warn: b unknown>down", "0s unhealthy: b unknown>down"},
	} {
		inLab(t, func(l *lab) {
			c := l.start(&pool{set: thresholds(3, 3, 10), backends: []*backend{l.backend("b", script)}})
			l.equal("log", c.logged(zapcore.DebugLevel), "\n\t"+want[0])
			l.equal("events", c.told(), "\n\t"+want[1])
		})
	}
	// retired by its first result
	inLab(t, func(l *lab) {
		c := l.start(&pool{set: thresholds(1, 1, 1), backends: []*backend{l.backend("b", "f")}, unchecked: []string{"other"}})
		l.equal("log", c.logged(zapcore.DebugLevel), "\n\t0s error: b unknown>retired")
		l.equal("events", c.told(), "\n\t0s unhealthy: b unknown>retired\n\t0s retired: b unknown>retired")
	})
}

// A dead target is worth one line.
func TestC6415DeadTargetIsOneLine(t *testing.T) {
	for name, unchecked := range map[string][]string{"alone": nil, "never retired": {"other"}} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				b := l.backend("b", "f")
				c := l.start(&pool{set: thresholds(1, 1, 0), backends: []*backend{b}, unchecked: unchecked})
				for at := 0.; len(b.checks()) < 100; at += 5 {
					l.at(at)
				}
				l.equal("warnings", c.logged(zapcore.InfoLevel), "\n\t0s warn: b unknown>down")
				l.equal("lines", c.logs.Len(), 100)
				l.equal("events", c.told(), "\n\t0s unhealthy: b unknown>down")
			})
		})
	}
}

// A quiet life of a retired target: its readmissions and retirements after
// the first are at debug.
func TestRepeatedRetirementIsQuiet(t *testing.T) {
	inLab(t, func(l *lab) {
		c := l.start(&pool{set: thresholds(1, 1, 2), backends: []*backend{l.backend("b", "f")}, unchecked: []string{"other"}})
		l.at(24 * 3600)
		l.equal("transitions", c.logged(zapcore.InfoLevel), `
	0s warn: b unknown>down
	10s error: b down>retired
	5m10s info: b retired>down`)
		l.equal("events", c.told(), `
	0s unhealthy: b unknown>down
	10s retired: b down>retired
	5m10s readmitted: b retired>down`)
	})
}

func TestFieldsOfALine(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.slow("b", "pff", time.Second)
		c := l.start(&pool{name: "web", set: thresholds(1, 1, 2), backends: []*backend{b}, unchecked: []string{"other"}})
		l.at(30)
		down := c.logs.All()[1].ContextMap()
		l.equal("down", []any{down["pool"], down["upstream"], down["reason"], down["failures"], down["duration"], down["delay"]},
			[]any{"web", "b", "connection refused", 1, time.Second, 10 * time.Second})
		retired := c.logs.All()[2].ContextMap()
		l.equal("retired", []any{retired["failures"], l.when(retired["readmitted"].(time.Time))}, []any{2, 318 * time.Second})
	})
}

// Events come in order, and a handler that takes its time holds up no check.
func TestSlowEventHandler(t *testing.T) {
	inLab(t, func(l *lab) {
		b := l.backend("b", "pf"+strings.Repeat("pf", 10)+"p")
		var events []string
		gen, _ := l.registry.Generation("slow")
		p := gen.Add(GroupConfig{
			Name: "pool", Settings: defaults(), Owner: &pool{},
			Targets: []TargetConfig{{Address: "b", Probe: b.probe}},
			Logger:  zap.NewNop(),
			Emit: func(event string, _ map[string]any) {
				time.Sleep(time.Minute)
				events = append(events, event)
			},
		})
		gen.Start()
		l.at(60)
		l.equal("checks", b.checks()[:6], seconds(0, 5, 15, 20, 30, 35))
		l.at(24 * 3600)
		l.equal("events", strings.Join(events, " "), strings.TrimSpace(strings.Repeat("healthy unhealthy ", 11)+"healthy"))
		p.Close()
	})
}

// An event handler that hangs holds up no log line, one that panics is logged.
func TestBadEventHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		hang := make(chan struct{})
		registry := NewRegistry()
		generation, _ := registry.Generation("config")
		group := generation.Add(GroupConfig{
			Name: "p", Settings: defaults(), Owner: nobody{}, Logger: zap.New(core),
			Targets: []TargetConfig{
				{Address: "a", Probe: func(context.Context) Report { return Report{OK: true} }},
				{Address: "b", Probe: func(context.Context) Report { time.Sleep(time.Second); return Report{OK: true} }},
			},
			Emit: func(_ string, data map[string]any) {
				if data["host"] == "b" {
					panic("bad handler")
				}
				<-hang
			},
		})
		generation.Start()
		time.Sleep(2 * time.Second)
		if n := logged.FilterMessage("upstream is up").Len(); n != 2 {
			t.Errorf("%d upstreams logged as up while a handler hangs", n)
		}
		close(hang)
		synctest.Wait()
		if n := logged.FilterMessage("event handler panicked").Len(); n != 1 {
			t.Errorf("%d panics logged", n)
		}
		group.Close()
	})
}

// nobody is an owner that does not care.
type nobody struct{}

func (nobody) Named(string)       {}
func (nobody) Changed()           {}
func (nobody) Left(*Target, bool) {}
func (nobody) Waits(*Target) bool { return false }
func (nobody) Started()           {}
