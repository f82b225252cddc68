package healthcheck

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Generation is the groups of one config. From its start on, only the newest
// one checks, logs and emits; the older ones go on to follow what it learns
// until they are closed. If the newest one is closed while an older one
// lives, because Caddy could not finish loading its config, the older one
// takes over again and what the newer one learned is undone.
type Generation struct {
	registry *Registry
	config   any
	groups   []*Group
	started  bool
	// saved is what the records were like when the generation took over.
	saved map[*record]*record
}

// Generation returns the generation of a config, which is any comparable
// value that the parts of the config have in common. It is made at the first
// call; fresh is true then, and the caller has to arrange for Start.
func (r *Registry) Generation(config any) (gen *Generation, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gen, ok := r.provisional[config]; ok {
		return gen, false
	}
	for _, gen := range r.generations {
		if gen.config == config {
			return gen, false
		}
	}
	gen = &Generation{registry: r, config: config}
	r.provisional[config] = gen
	return gen, true
}

// Current returns the groups of the newest generation that has started, in
// the order in which they were named.
func (r *Registry) Current() []*Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.generations) == 0 {
		return nil
	}
	return slices.Clone(r.generations[len(r.generations)-1].groups)
}

// Add adds the targets of a pool, before the generation starts. Until then
// they follow what an older one knows about them and are not checked.
func (gen *Generation) Add(cfg GroupConfig) *Group {
	g := &Group{registry: gen.registry, generation: gen, cfg: cfg, name: cfg.Name}
	gen.registry.update(func(now time.Time) {
		g.began = now
		for _, tc := range cfg.Targets {
			g.add(tc, now)
		}
		gen.groups = append(gen.groups, g)
	})
	return g
}

// add adds a target, which follows what is known about it.
func (g *Group) add(tc TargetConfig, now time.Time) *Target {
	t := &Target{
		registry: g.registry, group: g, address: tc.Address, check: tc.Check, via: tc.Transport,
		probe: tc.Probe, tier: tc.Tier,
	}
	g.targets = append(g.targets, t)
	rec := g.registry.closest(t.key())
	if rec == nil {
		rec = fresh(t, now)
	}
	t.follow(rec)
	return t
}

// fresh returns a record that knows nothing, or that a target without checks
// is up.
func fresh(t *Target, now time.Time) *record {
	rec := &record{key: t.key(), since: now, tally: new(Tally)}
	if t.probe == nil {
		rec.unchecked = true
		rec.state.Status = Up
		rec.reason = "unchecked"
		rec.mirror()
	}
	return rec
}

// Start makes the generation the current one: its pools get their final
// names, take over what is known, and are checked from now on.
func (gen *Generation) Start() {
	r := gen.registry
	var named []*Group
	r.mu.Lock()
	if !gen.started {
		gen.name()
		named = slices.Clone(gen.groups)
	}
	r.mu.Unlock()
	for _, g := range named {
		g.cfg.Owner.Named(g.name)
	}
	r.update(func(now time.Time) {
		if gen.started || len(gen.groups) == 0 {
			return
		}
		gen.started = true
		delete(r.provisional, gen.config)
		gen.saved = make(map[*record]*record)
		kept := make(map[Key]standing)
		if n := len(r.generations); n > 0 {
			older := r.generations[n-1]
			older.rest(gen.saved, now)
			kept = older.standings()
			gen.takeComebacks(older)
		}
		r.generations = append(r.generations, gen)
		gen.drive(gen.groups, kept, now)
	})
	for _, g := range named {
		g.cfg.Owner.Started()
	}
}

// standing is what goes with pool and address, whatever the check.
type standing struct {
	ejection ejection
	operator operator
	tally    *Tally
}

// standings returns the standings of all targets, by pool and address.
func (gen *Generation) standings() map[Key]standing {
	all := make(map[Key]standing)
	for _, g := range gen.groups {
		for _, t := range g.targets {
			rec := t.rec.Load()
			all[t.key().place()] = standing{rec.ejection, rec.operator, rec.tally}
		}
	}
	return all
}

// name gives the groups their final names.
func (gen *Generation) name() {
	slices.SortStableFunc(gen.groups, func(a, b *Group) int {
		return strings.Compare(a.cfg.Server, b.cfg.Server)
	})
	used := make(map[string]bool, len(gen.groups))
	for _, g := range gen.groups {
		used[g.cfg.Name] = true
	}
	counts := make(map[string]int)
	for _, g := range gen.groups {
		counts[g.cfg.Name]++
		for n := counts[g.cfg.Name]; n > 1; n++ {
			name := g.cfg.Name + "#" + strconv.Itoa(n)
			if !used[name] {
				g.name, used[name], counts[g.cfg.Name] = name, true, n
				break
			}
		}
	}
}

// rest ends all that the generation has under way and saves what is known.
func (gen *Generation) rest(saved map[*record]*record, now time.Time) {
	for _, g := range gen.groups {
		for _, t := range g.targets {
			rec := t.rec.Load()
			if rec.driver != t {
				continue
			}
			rec.halt(now)
			saved[rec] = rec.fork(rec.key)
		}
	}
}

// drive makes the groups' targets the drivers of their records. Where one has
// a record of its own now, it keeps the standing.
func (gen *Generation) drive(groups []*Group, kept map[Key]standing, now time.Time) {
	for _, g := range groups {
		for _, t := range g.targets {
			t.drive(kept, now)
		}
	}
	for _, g := range groups {
		g.begin(now)
	}
}

// drive makes t the driver of the record of its key.
func (t *Target) drive(kept map[Key]standing, now time.Time) {
	r := t.registry
	known, key := t.rec.Load(), t.key()
	rec := r.records[key]
	if rec == nil {
		rec = known
		if known.key != key || known.driver != nil {
			rec = known.fork(key)
		}
		r.remember(rec)
	}
	if rec != known {
		t.follow(rec)
	}
	rec.driver = t
	t.remember(rec.unfinished)
	if s, ok := kept[key.place()]; ok {
		rec.ejection, rec.operator, rec.tally = s.ejection, s.operator, s.tally
		if rec.operator.mode == Maint { // though that of another pool is not
			rec.unplan()
		}
		rec.show(false, now)
	}
}

// begin begins to check the group's targets.
func (g *Group) begin(now time.Time) {
	for _, t := range g.targets {
		t.begin(now)
	}
	g.recall(now)
	g.registry.startFirsts(now)
}

// begin sets the timer of the target, or asks for its first check.
func (t *Target) begin(now time.Time) {
	r, rec := t.registry, t.rec.Load()
	switch {
	case rec.operator.mode == Maint:
	case t.probe != nil && !rec.known():
		r.firsts = append(r.firsts, rec)
		return
	case rec.state.Status == Retired && rec.next.IsZero(): // for good, as an older config had it
		rec.schedule(t.group.cfg.Settings, now, false)
	}
	r.arm(rec, now)
}

// leave ends all that the target has under way.
func (t *Target) leave(now time.Time) {
	rec := t.rec.Load()
	if rec.driver == t {
		rec.halt(now)
	}
	t.unfollow(rec)
}

// current reports whether gen is the newest one that has started.
func (gen *Generation) current() bool {
	n := len(gen.registry.generations)
	return n > 0 && gen.registry.generations[n-1] == gen
}

// close takes g out of its generation and ends the generation with its last
// group.
func (r *Registry) close(g *Group) {
	r.update(func(now time.Time) {
		gen := g.generation
		i := slices.Index(gen.groups, g)
		if i < 0 {
			return
		}
		gen.groups = slices.Delete(gen.groups, i, i+1)
		g.closed = true
		for _, t := range g.targets {
			t.leave(now)
			r.stay(t)
		}
		if len(gen.groups) == 0 {
			r.end(gen, now)
		}
	})
}

// end removes a generation. If it was the current one and an older one lives,
// that one takes over as if the newer one had never been.
func (r *Registry) end(gen *Generation, now time.Time) {
	delete(r.provisional, gen.config)
	for place := range r.behind { // also those that no newer config has
		r.tidy(place)
	}
	i := slices.Index(r.generations, gen)
	if i < 0 {
		return
	}
	r.generations = slices.Delete(r.generations, i, i+1)
	if i < len(r.generations) { // an older one ended: no way back to it
		r.generations[i].saved = nil
		return
	}
	if i == 0 {
		return
	}
	older := r.generations[i-1]
	for rec, saved := range gen.saved {
		rec.restore(saved)
	}
	older.drive(older.groups, nil, now)
}

// restore takes back what has been learned since saved was forked.
func (rec *record) restore(saved *record) {
	from := rec.state.Status
	rec.state, rec.loud, rec.last, rec.history = saved.state, saved.loud, saved.last, saved.history
	rec.delay, rec.next = saved.delay, saved.next
	rec.ejection, rec.operator = saved.ejection, saved.operator
	rec.move(from, saved.reason, saved.since)
	rec.since = saved.since
	rec.back.Store(saved.back.Load())
}
