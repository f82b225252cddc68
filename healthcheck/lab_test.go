package healthcheck

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// lab is a registry in a bubble of time, with backends that answer by script.
type lab struct {
	*testing.T
	registry *Registry
	began    time.Time
	configs  []*config
	backends []*backend
}

// inLab runs f in a lab. After it, all configs are closed and nothing may be
// left: no check, no timer, no record.
func inLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, registry: NewRegistry(), began: time.Now()}
		defer l.end()
		f(l)
	})
}

func (l *lab) end() {
	l.Helper()
	for _, c := range l.configs {
		c.close()
	}
	synctest.Wait()
	checks := l.checks()
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	l.equal("checks after the end", l.checks()-checks, 0)
	l.locked(func(r *Registry) {
		l.equal("left in the registry",
			[]int{len(r.records), len(r.alike), len(r.generations), len(r.provisional), len(r.firsts), r.starting, len(r.behind)},
			[]int{0, 0, 0, 0, 0, 0, 0})
	})
}

// locked runs f with the registry's lock held.
func (l *lab) locked(f func(r *Registry)) {
	l.registry.mu.Lock()
	defer l.registry.mu.Unlock()
	f(l.registry)
}

// checks returns how many checks there were.
func (l *lab) checks() int {
	n := 0
	for _, b := range l.backends {
		n += len(b.checks())
	}
	return n
}

// at sleeps until so many seconds after the beginning, and until all that
// happens then is done.
func (l *lab) at(s float64) {
	time.Sleep(time.Until(l.began.Add(seconds(s)[0])))
	synctest.Wait()
}

// when returns how long after the beginning at is, -1 for never.
func (l *lab) when(at time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	return at.Sub(l.began)
}

// equal compares two values by how they are printed.
func (l *lab) equal(what string, got, want any) {
	l.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		l.Errorf("%s at %s:\n got %s\nwant %s", what, time.Since(l.began), g, w)
	}
}

// goroutines returns how many goroutines registries have, of all tests. The
// caller must not be in one.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("healthcheck.(*Registry)")) + bytes.Count(stacks, []byte("healthcheck.(*notices)"))
}

// checkRules checks what holds at any time at which nothing is happening.
func checkRules(l *lab, p *pool) {
	l.Helper()
	l.locked(func(*Registry) {
		up, retired, extras := 0, 0, 0
		for _, target := range p.targets {
			rec := target.rec.Load()
			switch rec.state.Status {
			case Up:
				up++
			case Retired:
				retired++
			}
			if rec.running != nil && rec.running.extra {
				extras++
			}
			if rec.state.Status == Down && rec.running == nil && !rec.next.After(time.Now()) {
				l.Errorf("%s is down and not checked, though due at %s", target.address, l.when(rec.next))
			}
		}
		if retired > 0 && up == 0 {
			l.Errorf("%d targets of %s are retired and none is up", retired, p.Group.name)
		}
		l.equal("in rotation", p.in, [3]int{up})
		l.equal("extra checks under way", p.extras, extras)
	})
}

// backend is what the targets of an address check.
type backend struct {
	lab     *lab
	address string
	// takes is how long a check takes, lag how long it goes on when it is cut
	// short, as if it had not been.
	takes, lag time.Duration

	mu      sync.Mutex
	script  string
	started []time.Duration
	running []context.Context
	most    int
	cut     int
}

// backend returns a backend that answers by script: p passes, f fails to
// connect, t times out, a answers badly, v is void. The last answer is repeated.
func (l *lab) backend(address, script string) *backend {
	b := &backend{lab: l, address: address, script: script}
	l.backends = append(l.backends, b)
	return b
}

// slow returns a backend whose checks take a while.
func (l *lab) slow(address, script string, takes time.Duration) *backend {
	b := l.backend(address, script)
	b.takes = takes
	return b
}

// says replaces the script.
func (b *backend) says(script string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = script
}

// slowDown makes checks take that long from now on.
func (b *backend) slowDown(takes time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takes = takes
}

// checks returns when the checks started.
func (b *backend) checks() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.started)
}

// since returns when the checks started from that many seconds on.
func (b *backend) since(s float64) []time.Duration {
	from := seconds(s)[0]
	return slices.DeleteFunc(b.checks(), func(at time.Duration) bool { return at < from })
}

// atOnce returns the largest number of checks under way at a time, not
// counting those that are cut short.
func (b *backend) atOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

func (b *backend) probe(ctx context.Context) Report {
	began := time.Now()
	b.mu.Lock()
	b.started = append(b.started, began.Sub(b.lab.began))
	b.running = slices.DeleteFunc(b.running, func(ctx context.Context) bool { return ctx.Err() != nil })
	b.running = append(b.running, ctx)
	b.most = max(b.most, len(b.running))
	takes := b.takes
	b.mu.Unlock()

	isCut := false
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			isCut = true
			time.Sleep(b.lag)
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = slices.DeleteFunc(b.running, func(c context.Context) bool { return c == ctx })
	report := Report{Time: began, Duration: time.Since(began)}
	if isCut {
		b.cut++
		report.Reason = "cut short"
		return report
	}
	switch b.script[0] {
	case 'p':
		report.OK, report.StatusCode = true, 200
	case 'f':
		report.Reason = "connection refused"
	case 't':
		report.Reason = timedOut
	case 'a':
		report.Answered, report.StatusCode, report.Reason = true, 503, "status 503"
	case 'v':
		report.Void, report.Reason = true, "no file descriptors left"
	}
	if len(b.script) > 1 {
		b.script = b.script[1:]
	}
	return report
}

// pool is a group to be, and its owner. The name defaults to "pool".
type pool struct {
	name, server     string
	set              Settings
	check, transport string
	backends         []*backend
	unchecked        []string // addresses without checks
	backups          int      // how many of the backends, the last ones, are backups

	*Group
	mu      sync.Mutex
	named   []string
	changed int
	gone    []string
	waits   bool
}

func (p *pool) Named(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named = append(p.named, name)
}

func (*pool) Started() {}

func (p *pool) Changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed++
}

func (p *pool) Left(t *Target, shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := t.Address()
	if shut {
		said += " (shut)"
	}
	p.gone = append(p.gone, said)
}

func (p *pool) Waits(*Target) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}

// wait sets whether requests wait for the targets.
func (p *pool) wait(waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = waits
}

// left returns the addresses whose waiting requests were to be told, and
// forgets them.
func (p *pool) left() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	list := strings.Join(p.gone, " ")
	p.gone = nil
	return list
}

// changes returns how often the owner was told about a change.
func (p *pool) changes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// statuses returns the statuses of all targets.
func (p *pool) statuses() string {
	var list []string
	for _, t := range p.targets {
		list = append(list, t.Status().String())
	}
	return strings.Join(list, " ")
}

// known returns the status of a target, its run of failures, and how long
// after the beginning its next check is.
func (p *pool) known(i int) string {
	info := p.targets[i].Info()
	return fmt.Sprintf("%s %d %s", info.Status, info.Failures, p.backends[i].lab.when(info.Next))
}

// config is a generation with pools.
type config struct {
	lab   *lab
	gen   *Generation
	pools []*pool
	logs  *observer.ObservedLogs

	mu     sync.Mutex
	events []line
}

// provision makes a config that is to be started.
func (l *lab) provision(pools ...*pool) *config {
	c := l.build(pools...)
	l.configs = append(l.configs, c)
	return c
}

// build makes a config that the test closes by itself.
func (l *lab) build(pools ...*pool) *config {
	core, logs := observer.New(zapcore.DebugLevel)
	c := &config{lab: l, pools: pools, logs: logs}
	c.gen, _ = l.registry.Generation(c)
	for _, p := range pools {
		cfg := GroupConfig{
			Name: p.name, Server: p.server, Settings: p.set, Timeout: DefaultTimeout, Owner: p,
			Logger: zap.New(core), Emit: c.emit,
		}
		if cfg.Name == "" {
			cfg.Name = "pool"
		}
		for i, b := range p.backends {
			tc := TargetConfig{Address: b.address, Check: p.check, Transport: p.transport, Probe: b.probe}
			if i >= len(p.backends)-p.backups {
				tc.Tier = Backup
			}
			cfg.Targets = append(cfg.Targets, tc)
		}
		for _, address := range p.unchecked {
			cfg.Targets = append(cfg.Targets, TargetConfig{Address: address, Check: "none"})
		}
		p.Group = c.gen.Add(cfg)
	}
	return c
}

// start provisions and starts a config.
func (l *lab) start(pools ...*pool) *config {
	c := l.provision(pools...)
	c.gen.Start()
	synctest.Wait()
	return c
}

// reload starts a config and closes all others.
func (l *lab) reload(pools ...*pool) *config {
	old := slices.Clone(l.configs)
	c := l.start(pools...)
	for _, c := range old {
		c.close()
	}
	return c
}

func (c *config) close() {
	c.closePools()
	synctest.Wait()
}

func (c *config) closePools() {
	for _, p := range c.pools {
		p.Close()
	}
}

// groups returns the groups in the order of the pools.
func (c *config) groups() []*Group {
	var groups []*Group
	for _, p := range c.pools {
		groups = append(groups, p.Group)
	}
	return groups
}

func (c *config) emit(event string, data map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, line{
		time.Since(c.lab.began), data["host"].(string),
		fmt.Sprintf("%s: %s %s>%s", event, data["host"], data["from"], data["to"]),
	})
}

// told returns the events.
func (c *config) told() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return join(c.events)
}

// logged returns the log lines of the given level and above.
func (c *config) logged(least zapcore.Level) string {
	synctest.Wait()
	var list []line
	for _, entry := range c.logs.All() {
		if entry.Level < least {
			continue
		}
		fields := entry.ContextMap()
		list = append(list, line{
			entry.Time.Sub(c.lab.began), fields["upstream"].(string),
			fmt.Sprintf("%s: %s %s>%s", entry.Level, fields["upstream"], fields["from"], fields["to"]),
		})
	}
	return join(list)
}

// line is something told about a target.
type line struct {
	at      time.Duration
	address string
	text    string
}

// join joins lines, so that they begin on one of their own. Those of one time
// are ordered by address: checks that end at the same time do so in any order.
func join(list []line) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.address, b.address))
	})
	var text strings.Builder
	for _, l := range list {
		fmt.Fprintf(&text, "\n\t%s %s", l.at, l.text)
	}
	return text.String()
}
