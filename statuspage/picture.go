package statuspage

import (
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// picture is what is known about all upstreams at a time.
type picture struct {
	Time  time.Time
	Pools []poolPicture
	// Log is the latest transitions, newest first.
	Log []healthcheck.Change
}

// poolPicture is a pool in a picture.
type poolPicture struct {
	Name      string
	Upstreams []upstreams.Upstream
	Health    health
	Counts    counts
}

// health sums up upstreams.
type health struct {
	Total int
	// Serving get requests, Standby are backups that would if they had to.
	Serving, Standby int
	// Ranks counts the upstreams by rank.
	Ranks [ranks]int
}

// counts is traffic: requests under way, attempts so far, and those of them
// that got no response.
type counts [3]uint64

func (c *counts) add(other counts) {
	for i := range c {
		c[i] += other[i]
	}
}

func countsOf(u *upstreams.Upstream) counts {
	return counts{uint64(max(u.InFlight, 0)), u.Requests, u.Errors}
}

// takePicture looks at all pools of the process.
func takePicture() *picture {
	p := &picture{Time: time.Now(), Log: upstreams.Changes()}
	for _, pool := range upstreams.Pools() {
		shown := poolPicture{Name: pool.Name()}
		pool.Each(func(u upstreams.Upstream) bool {
			shown.add(u)
			return true
		})
		p.Pools = append(p.Pools, shown)
	}
	for i := range p.Pools {
		p.Pools[i].Health.settle()
	}
	return p
}

// add adds an upstream to the pool. Until settle, backups are on standby.
func (p *poolPicture) add(u upstreams.Upstream) {
	p.Upstreams = append(p.Upstreams, u)
	p.Counts.add(countsOf(&u))
	p.Health.Total++
	p.Health.Ranks[rankOf(&u)]++
	switch {
	case u.InRotation && u.Backup:
		p.Health.Standby++
	case u.InRotation:
		p.Health.Serving++
	}
}

// settle puts the backups to work if nothing else is in rotation.
func (h *health) settle() {
	if h.Serving == 0 {
		h.Serving, h.Standby = h.Standby, 0
	}
}

func (h *health) add(other health) {
	h.Total += other.Total
	h.Serving += other.Serving
	h.Standby += other.Standby
	for r := range h.Ranks {
		h.Ranks[r] += other.Ranks[r]
	}
}

// Troubled is how many upstreams need attention.
func (h health) Troubled() int { return h.Total - h.Ranks[well] }

// Dead reports that no request can be served.
func (h health) Dead() bool { return h.Serving == 0 }

// order is where a pool stands on the page: dead ones before troubled ones
// before all others.
func (h health) order() int {
	switch {
	case h.Dead():
		return 0
	case h.Troubled() > 0:
		return 1
	}
	return 2
}
