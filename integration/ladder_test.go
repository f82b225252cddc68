package integration

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Tests of the schedule in real time, and of what is told about it. Gaps are
// measured at the backend, between the arrivals of two checks, and so are
// never shorter than the delay.

const retiredLine = "upstream is retired: no more checks, no more requests"

// A patient is a backend whose checks fail while it is sick. It answers with
// its address.
type patient struct {
	*witness
	sick atomic.Bool
}

func newPatient(t testing.TB, sick bool) *patient {
	t.Helper()
	p, release := newHeldPatient(t, sick)
	release()
	return p
}

// newHeldPatient returns a patient whose checks wait to be released, so that
// others are up before its first result is there.
func newHeldPatient(t testing.TB, sick bool) (p *patient, release func()) {
	t.Helper()
	held := make(chan struct{})
	p = new(patient)
	p.sick.Store(sick)
	p.witness = newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			select {
			case <-held:
			case <-r.Context().Done():
			}
			if p.sick.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		_, _ = io.WriteString(w, p.addr)
	})
	return p, sync.OnceFunc(func() { close(held) })
}

// newReadmitted returns an upstream whose first check waits to be failed, and
// whose others wait to be passed.
func newReadmitted(t testing.TB) (w *witness, fail, pass func()) {
	t.Helper()
	first, others := make(chan struct{}), make(chan struct{})
	var checks atomic.Int64
	w = newWitness(t, func(w http.ResponseWriter, _ *http.Request) {
		if checks.Add(1) == 1 {
			<-first
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		<-others
	})
	return w, func() { close(first) }, func() { close(others) }
}

// gaps returns the times between its checks.
func (p *patient) gaps() []time.Duration {
	probes := p.probes()
	var gaps []time.Duration
	for i := 1; i < len(probes); i++ {
		gaps = append(gaps, probes[i].at.Sub(probes[i-1].at))
	}
	return gaps
}

// waitChecks waits until it has been checked n times.
func (p *patient) waitChecks(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is checked %d times", p.addr, n), func() bool { return len(p.probes()) >= n })
}

// An emitted is an event as the log has it.
type emitted struct {
	name string
	data map[string]any
}

// events returns the events of load_balance that concern an upstream, in
// order. Caddy logs all events with the global option debug.
func (c *caddyProcess) events(upstream string) []emitted {
	var list []emitted
	for _, line := range c.logged("event") {
		data, _ := line["data"].(map[string]any)
		name, _ := line["name"].(string)
		if data["host"] == upstream {
			list = append(list, emitted{name, data})
		}
	}
	return list
}

// waitIdle waits until no request is under way. It is counted as such for a
// moment longer than its client waits.
func (c *caddyProcess) waitIdle(t testing.TB) {
	t.Helper()
	eventually(t, "no request is under way", func() bool {
		return !slices.ContainsFunc(c.upstreams(t), func(row admin.Upstream) bool { return row.InFlight > 0 })
	})
}

// lines returns the log lines of load_balance about an upstream.
func (c *caddyProcess) lines(upstream, level string) []string {
	var found []string
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, `"logger":"http.handlers.load_balance"`) && strings.Contains(line, `"upstream":"`+upstream+`"`) &&
			strings.Contains(line, `"level":"`+level+`"`) {
			found = append(found, line)
		}
	}
	return found
}

// The interval while up and the first delay while down are configured apart.
func TestLadderFirstDelay_t6550(t *testing.T) {
	t.Parallel()
	p := newPatient(t, false)
	c := launch(t, site(freeAddr(t), to(p.addr, brisk, "health_uri /health", "health_increment 700ms", "health_max_interval 10s")))
	p.waitChecks(t, 4)
	if row := c.upstream(t, p.addr); row.Status != "up" || row.DelayMS != 100 {
		t.Errorf("got %s, %d ms", row.Status, row.DelayMS)
	}
	p.sick.Store(true)
	var row admin.Upstream
	eventually(t, "it is down", func() bool {
		row = c.upstream(t, p.addr)
		return row.Status == "down"
	})
	if row.DelayMS != 800 {
		t.Errorf("got %d ms", row.DelayMS)
	}
	p.sick.Store(false)
	c.waitStatus(t, "up", p.addr)
	gaps := p.gaps()
	if short := slices.Min(gaps[1:]); short < 100*time.Millisecond {
		t.Errorf("a gap of %s while up", short)
	}
	if long := slices.Max(gaps); long < 800*time.Millisecond {
		t.Errorf("the gap while down is %s", long)
	}
}

// A new upstream that fails its first check only is in rotation after the
// next one.
func TestLadderFirstCheckFails_h3405(t *testing.T) {
	t.Parallel()
	var checks atomic.Int64
	w := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && checks.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	addr := freeAddr(t)
	c := launch(t, site(addr, to(w.addr, brisk, "health_uri /health", "health_increment 100ms")))
	c.waitStatus(t, "up", w.addr)
	since := c.upstream(t, w.addr).Since.Add(time.Millisecond) // it is rounded
	if n := len(w.sights(func(s sight) bool { return s.at.Before(since) })); n != 2 {
		t.Errorf("in rotation after %d checks", n)
	}
	if status, _ := get(t, "http://"+addr); status != 200 {
		t.Errorf("got status %d", status)
	}
	eventually(t, "both are logged", func() bool { return len(c.logged("upstream is up")) > 0 })
	if down, up := c.logged("upstream is down"), c.logged("upstream is up"); len(down) != 1 || len(up) != 1 || up[0]["from"] != "down" {
		t.Errorf("logged %v, %v", down, up)
	}
}

// A healthy upstream beside a retired one behaves as if it were alone.
func TestLadderRetiredNeighbor_proxy1495(t *testing.T) {
	t.Parallel()
	alone, beside := newPatient(t, false), newPatient(t, false)
	retired, release := newHeldPatient(t, true)
	one, two := freeAddr(t), freeAddr(t)
	options := brisk + "health_uri /health\nhealth_increment 0\nhealth_max_interval 100ms\nhealth_max_failures 2\nhealth_readmit_after never"
	c := launch(t, site(one, to(alone.addr, options))+site(two, to(beside.addr+" "+retired.addr, options)))
	c.waitStatus(t, "up", beside.addr)
	release()
	c.waitStatus(t, "retired", retired.addr)
	same := func(when string) {
		t.Helper()
		c.waitIdle(t)
		a, b := c.upstream(t, alone.addr), c.upstream(t, beside.addr)
		for _, row := range []*admin.Upstream{&a, &b} {
			row.Pool, row.Address, row.Since, row.LastCheck, row.NextCheck, row.Failures = "", "", nil, nil, nil, 0
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: alone %+v, beside %+v", when, a, b)
		}
	}

	same("before")
	for range 30 {
		for addr, p := range map[string]*patient{one: alone, two: beside} {
			if status, body := get(t, "http://"+addr); status != 200 || body != p.addr {
				t.Fatalf("%s: got status %d, %q", p.addr, status, body)
			}
		}
	}
	same("after traffic")
	for _, p := range []*patient{alone, beside} {
		p.waitChecks(t, len(p.probes())+3)
		if short := slices.Min(p.gaps()[1:]); short < 100*time.Millisecond {
			t.Errorf("a gap of %s", short)
		}
	}
	if n := len(retired.requests()); n > 0 {
		t.Errorf("%d requests at the retired one", n)
	}
	if n := len(retired.probes()); n != 2 {
		t.Errorf("%d checks of the retired one", n)
	}

	alone.sick.Store(true)
	beside.sick.Store(true)
	c.waitStatus(t, "down", alone.addr, beside.addr)
	same("down")
	for _, addr := range []string{one, two} {
		if status, _, header := getHeader(t, "http://"+addr); status != 503 || header.Get("Retry-After") != "1" {
			t.Errorf("got status %d, Retry-After %q", status, header.Get("Retry-After"))
		}
	}
	alone.sick.Store(false)
	beside.sick.Store(false)
	c.waitStatus(t, "up", alone.addr, beside.addr)
	c.waitStatus(t, "retired", retired.addr)
	same("up again")
	if lines := c.logged(retiredLine); len(lines) != 1 {
		t.Errorf("%d loud lines, want 1", len(lines))
	}
}

// An upstream that fails a hundred checks in a row gets one line at warn; the
// repeats are for debugging.
func TestLadderLogLevels_c6415(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "debug"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, true)
			var global []string
			if level == "debug" {
				global = []string{"debug"}
			}
			c := launch(t, site(freeAddr(t), to(p.addr, "health_uri /health", "health_interval 5ms", "health_increment 0", "health_max_failures never")), global...)
			eventually(t, "a hundred checks have failed", func() bool { return c.upstream(t, p.addr).Failures >= 100 })
			eventually(t, "they are logged", func() bool {
				return len(c.lines(p.addr, "warn")) > 0 && (level == "info" || len(c.lines(p.addr, "debug")) >= 95)
			})
			if warned := c.lines(p.addr, "warn"); len(warned) != 1 {
				t.Errorf("%d lines at warn, want 1: %q", len(warned), warned)
			}
			repeats := len(c.lines(p.addr, "debug"))
			if level == "info" && repeats > 0 || level == "debug" && repeats < 95 {
				t.Errorf("%d lines at debug", repeats)
			}
			if other := len(c.lines(p.addr, "info")) + len(c.lines(p.addr, "error")); other > 0 {
				t.Errorf("%d lines at other levels", other)
			}
		})
	}
}

// The first result of an upstream is logged and emitted, good or bad.
func TestLadderFirstResult_c6419_e4942(t *testing.T) {
	t.Parallel()
	well, dead := newPatient(t, false), refusedAddr(t)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+dead, "health_uri /health", "name pool")), "debug")
	for addr, want := range map[string]struct{ status, level, event string }{
		well.addr: {"up", "info", "healthy"},
		dead:      {"down", "warn", "unhealthy"},
	} {
		c.waitStatus(t, want.status, addr)
		eventually(t, want.event+" is emitted and logged", func() bool { return len(c.events(addr)) > 0 && len(c.lines(addr, want.level)) > 0 })
		if lines := c.lines(addr, want.level); len(lines) != 1 || !strings.Contains(lines[0], `"from":"unknown","to":"`+want.status+`"`) {
			t.Errorf("%s: logged %q", addr, lines)
		}
		event := c.events(addr)[0]
		if event.name != want.event || event.data["from"] != "unknown" || event.data["to"] != want.status || event.data["pool"] != "pool" {
			t.Errorf("%s: emitted %+v", addr, event)
		}
	}
}

// The ladder in units of 100 ms: checks at the right times, retirement with
// one loud line, readmission for one check when its time has come.
func TestLadderRetirement(t *testing.T) {
	t.Parallel()
	well := newPatient(t, false)
	p, release := newHeldPatient(t, true)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(well.addr+" "+p.addr, brisk, "health_uri /health", "health_increment 100ms",
		"health_max_interval 1s", "health_max_failures 3", "health_readmit_after 800ms")))
	c.waitStatus(t, "up", well.addr)
	release()
	var row admin.Upstream
	eventually(t, "the first failure is counted", func() bool {
		row = c.upstream(t, p.addr)
		return row.Failures > 0
	})
	if row.Failures == 1 && (row.Status != "down" || row.DelayMS != 200 || row.MaxFailures != 3 || row.Reason != "status 503") {
		t.Errorf("after the first failure: %+v", row)
	}
	if row.Failures == 1 && (row.RetireAt == nil || row.RetireAt.Sub(*row.NextCheck) != 300*time.Millisecond) {
		t.Errorf("retired at %v, next check at %v", row.RetireAt, row.NextCheck)
	}
	c.waitStatus(t, "retired", p.addr)
	if row = c.upstream(t, p.addr); row.Status == "retired" {
		readmitted := row.NextCheck.Sub(*row.Since).Round(10 * time.Millisecond)
		if row.Failures != 3 || row.InRotation || row.DelayMS != 800 || readmitted != 800*time.Millisecond || row.RetireAt != nil {
			t.Errorf("retired: %+v, until %s", row, readmitted)
		}
	}
	eventually(t, "it is logged", func() bool { return len(c.lines(p.addr, "error")) > 0 })
	if lines := c.lines(p.addr, "error"); len(lines) != 1 || !strings.Contains(lines[0], retiredLine) || !strings.Contains(lines[0], `"readmitted":`) {
		t.Errorf("loud lines: %q", lines)
	}

	p.waitChecks(t, 6) // readmitted thrice, each time for one check
	eventually(t, "it is retired again", func() bool {
		row := c.upstream(t, p.addr)
		return row.Status == "retired" && row.Failures == 3
	})
	for i, gap := range p.gaps() {
		delay := []time.Duration{200, 300, 800, 800, 800}
		if i < len(delay) && gap < delay[i]*time.Millisecond {
			t.Errorf("check %d came %s after the one before, want %d ms", i+2, gap, delay[i])
		}
	}
	if lines := c.lines(p.addr, "error"); len(lines) != 1 {
		t.Errorf("%d loud lines, want 1", len(lines))
	}
	if warned := c.lines(p.addr, "warn"); len(warned) != 1 {
		t.Errorf("%d lines at warn, want 1: %q", len(warned), warned)
	}

	p.sick.Store(false)
	c.waitStatus(t, "up", p.addr)
	p.sick.Store(true)
	eventually(t, "the next retirement is loud again", func() bool { return len(c.lines(p.addr, "error")) == 2 })
	if status, _ := get(t, "http://"+addr); status != 200 {
		t.Errorf("got status %d", status)
	}
}

// Without health_readmit_after only an operator ends a retirement: down, no
// failures, and one check at once. Events and lines in order.
func TestLadderReadmit(t *testing.T) {
	t.Parallel()
	well := newPatient(t, false)
	p, release := newHeldPatient(t, true)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+p.addr, brisk, "name pool", "health_uri /health", "health_increment 50ms",
		"health_max_interval 200ms", "health_max_failures 2", "health_readmit_after never")), "debug")
	c.waitStatus(t, "up", well.addr)
	release()
	c.waitStatus(t, "retired", p.addr)
	if row := c.upstream(t, p.addr); row.NextCheck != nil {
		t.Errorf("readmitted at %s", row.NextCheck)
	}
	well.waitChecks(t, len(well.probes())+5)
	if n := len(p.probes()); n != 2 {
		t.Errorf("%d checks, want 2", n)
	}
	if status, _ := c.api(t, http.MethodPost, "/load_balance/readmit?upstream="+p.addr); status != 200 {
		t.Errorf("readmit: status %d", status)
	}
	p.waitChecks(t, 4) // the ladder anew
	c.waitStatus(t, "retired", p.addr)
	if lines := c.lines(p.addr, "error"); len(lines) != 1 {
		t.Errorf("%d loud lines, want 1", len(lines))
	}
	p.sick.Store(false)
	if status, _ := c.api(t, http.MethodPost, "/load_balance/readmit?upstream="+p.addr); status != 200 {
		t.Errorf("readmit: status %d", status)
	}
	c.waitStatus(t, "up", p.addr)

	want := []string{"unhealthy", "retired", "readmitted", "readmitted", "healthy"}
	var names []string
	eventually(t, "all is emitted", func() bool {
		names = nil
		for _, event := range c.events(p.addr) {
			names = append(names, event.name)
		}
		return slices.Contains(names, "healthy")
	})
	if !slices.Equal(names, want) {
		t.Fatalf("events %q, want %q", names, want)
	}
	for i, data := range []map[string]any{
		{"from": "unknown", "to": "down", "reason": "status 503", "failures": 1.0},
		{"from": "down", "to": "retired", "reason": "status 503", "failures": 2.0},
		{"from": "retired", "to": "down", "reason": "status 503", "failures": 0.0},
		{"from": "retired", "to": "down", "reason": "status 503", "failures": 0.0},
		{"from": "down", "to": "up", "reason": "", "failures": 0.0},
	} {
		data["pool"], data["host"] = "pool", p.addr
		if got := c.events(p.addr)[i].data; !reflect.DeepEqual(got, data) {
			t.Errorf("%s: data %v, want %v", want[i], got, data)
		}
	}
}

// health_max_failures never: an upstream stays down and goes on being checked.
func TestLadderNeverRetires(t *testing.T) {
	t.Parallel()
	well, p := newPatient(t, false), newPatient(t, true)
	c := launch(t, site(freeAddr(t), to(well.addr+" "+p.addr, "health_uri /health", "health_interval 10ms", "health_increment 0", "health_max_failures never")))
	eventually(t, "fifteen checks have failed", func() bool { return c.upstream(t, p.addr).Failures > 15 })
	if row := c.upstream(t, p.addr); row.Status != "down" || row.MaxFailures != 0 || row.RetireAt != nil || row.NextCheck == nil && row.LastCheck == nil {
		t.Errorf("got %+v", row)
	}
}

// The only upstream of a pool is never retired: it is checked at the longest
// delay.
func TestLadderOnlyUpstream(t *testing.T) {
	t.Parallel()
	p := newPatient(t, true)
	c := launch(t, site(freeAddr(t), to(p.addr, "health_uri /health", "health_interval 20ms", "health_jitter 0", "health_increment 20ms",
		"health_max_interval 90ms", "health_max_failures 2")))
	eventually(t, "six checks have failed", func() bool { return c.upstream(t, p.addr).Failures >= 6 })
	if row := c.upstream(t, p.addr); row.Status != "down" || row.DelayMS != 90 || row.RetireAt != nil {
		t.Errorf("got %+v", row)
	}
	for i, gap := range p.gaps() {
		if delay := []time.Duration{40, 90}[min(i, 1)] * time.Millisecond; gap < delay {
			t.Errorf("check %d came %s after the one before, want %s", i+2, gap, delay)
		}
	}
	if lines := c.lines(p.addr, "error"); len(lines) > 0 {
		t.Errorf("loud lines: %q", lines)
	}
	p.sick.Store(false)
	c.waitStatus(t, "up", p.addr)
}

// When the last upstream leaves rotation, the retired ones are recalled and
// checked at once.
func TestLadderRecall(t *testing.T) {
	t.Parallel()
	first, release := newHeldPatient(t, true)
	second := newPatient(t, false)
	addr := freeAddr(t)
	c := launch(t, site(addr, to(first.addr+" "+second.addr, brisk, "health_uri /health", "health_max_failures 2",
		"health_increment 0", "health_max_interval 1m", "health_readmit_after never")), "debug")
	c.waitStatus(t, "up", second.addr)
	release()
	c.waitStatus(t, "retired", first.addr)
	first.sick.Store(false)
	second.sick.Store(true)
	c.waitStatus(t, "up", first.addr)
	c.waitStatus(t, "retired", second.addr) // now that another one is up
	if status, _ := get(t, "http://"+addr); status != 200 {
		t.Errorf("got status %d", status)
	}
	eventually(t, "all is emitted", func() bool { return len(c.events(first.addr)) == 4 })
	var names []string
	for _, event := range c.events(first.addr) {
		names = append(names, event.name)
	}
	if want := []string{"unhealthy", "retired", "readmitted", "healthy"}; !slices.Equal(names, want) {
		t.Errorf("events %q, want %q", names, want)
	}
}

// Upstreams with the same interval do not stay in step: their next checks are
// spread over the interval.
func TestLadderSpread_e4132(t *testing.T) {
	t.Parallel()
	const n = 50
	var addresses []string
	for range n {
		addresses = append(addresses, newPatient(t, false).addr)
	}
	c := launch(t, site(freeAddr(t), to(strings.Join(addresses, " "), "health_uri /health", "health_interval 1s")))
	last := addresses[n-1]
	c.waitStatus(t, "up", addresses...)
	since := *c.upstream(t, last).Since
	eventually(t, "two rounds have passed", func() bool {
		row := c.upstream(t, last)
		return row.LastCheck != nil && row.LastCheck.Time.After(since.Add(time.Second))
	})
	var next []time.Time
	for _, u := range c.upstreams(t) {
		next = append(next, *u.NextCheck)
	}
	slices.SortFunc(next, time.Time.Compare)
	for i := 1; i < n; i++ {
		if gap := next[i].Sub(next[i-1]); gap > 400*time.Millisecond {
			t.Errorf("no check for %s between %s and %s", gap, next[i-1], next[i])
		}
	}
	if span := next[n-1].Sub(next[0]); span < 500*time.Millisecond {
		t.Errorf("all checks within %s", span)
	}
}

// What an operator's check finds out counts if it passed. If it failed while
// the upstream is down or retired, it is only shown: neither the run of
// failures nor the schedule moves.
func TestLadderOperatorCheck(t *testing.T) {
	t.Parallel()
	well := newPatient(t, false)
	down, releaseDown := newHeldPatient(t, true)
	retired, releaseRetired := newHeldPatient(t, true)
	options := "health_uri /health\nhealth_interval 1h\nhealth_max_interval 2h\nhealth_readmit_after 1h\n"
	c := launch(t, site(freeAddr(t), to(well.addr+" "+down.addr, options))+
		site(freeAddr(t), to(well.addr+" "+retired.addr, "name retiring", options, "health_max_failures 1")))
	for _, pool := range []string{well.addr, "retiring"} {
		eventually(t, "the one is up", func() bool { return c.row(t, pool).Status == "up" })
	}
	releaseDown()
	releaseRetired()
	for status, p := range map[string]*patient{"down": down, "retired": retired} {
		c.waitStatus(t, status, p.addr)
		before := c.upstream(t, p.addr)
		c.act(t, "check?upstream="+p.addr)
		var after admin.Upstream
		eventually(t, "the failed check is shown", func() bool {
			after = c.upstream(t, p.addr)
			return after.LastCheck.Time.After(*before.LastCheck.Time)
		})
		before.LastCheck, after.LastCheck = nil, nil
		if !reflect.DeepEqual(after, before) {
			t.Errorf("%s: before %+v, after %+v", status, before, after)
		}
		p.sick.Store(false)
		c.act(t, "check?upstream="+p.addr)
		c.waitStatus(t, "up", p.addr)
	}
}

// health_fails and health_passes: so many in a row, and no fewer.
func TestLadderThresholds(t *testing.T) {
	t.Parallel()
	p := newPatient(t, false)
	c := launch(t, site(freeAddr(t), to(p.addr, "health_uri /health", "health_interval 50ms", "health_jitter 0", "health_increment 0", "health_fails 3", "health_passes 4")), "debug")
	c.waitStatus(t, "up", p.addr)
	p.sick.Store(true)
	c.waitStatus(t, "down", p.addr)
	p.sick.Store(false)
	eventually(t, "it is up again", func() bool { return len(c.logged("upstream is up")) == 2 })
	var run []string
	for line := range strings.Lines(c.log.String()) {
		for _, message := range []string{"check failed", "upstream is down", "check passed", "upstream is up"} {
			if strings.Contains(line, `"logger":"http.handlers.load_balance"`) && strings.Contains(line, `"msg":"`+message+`"`) {
				run = append(run, message)
			}
		}
	}
	if run[0] != "upstream is up" { // the first result decides alone
		t.Errorf("began with %q", run)
	}
	first, down := slices.Index(run, "check failed"), slices.Index(run, "upstream is down")
	if down-first != 2 {
		t.Errorf("down after %d failed checks, want 3: %q", down-first+1, run)
	}
	run = run[down+1:]
	run = run[:slices.Index(run, "upstream is up")]
	for len(run) > 0 && run[0] == "check failed" {
		run = run[1:]
	}
	if want := []string{"check passed", "check passed", "check passed"}; !slices.Equal(run, want) {
		t.Errorf("up after %q and one more, want %q", run, want)
	}
}
