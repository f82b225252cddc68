package statuspage

import (
	"fmt"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// noon is when the pictures of the tests are taken.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pictureOf returns a picture of pools, whose upstreams are given by name and
// what they are like.
func pictureOf(pools ...poolPicture) *picture {
	p := &picture{Time: noon, Pools: pools}
	for i := range p.Pools {
		p.Pools[i].Health.settle()
	}
	return p
}

func poolOf(name string, list ...upstreams.Upstream) poolPicture {
	p := poolPicture{Name: name}
	for _, u := range list {
		u.Pool = name
		p.add(u)
	}
	return p
}

// is returns an upstream that is like that, and up and in rotation otherwise.
func is(address string, like ...func(*upstreams.Upstream)) upstreams.Upstream {
	u := upstreams.Upstream{Address: address, Weight: 1}
	u.Status, u.Checked, u.MaxFailures = healthcheck.Up, true, 10
	u.Since, u.Next = noon.Add(-time.Minute), noon.Add(3*time.Second)
	u.Last = healthcheck.Report{Time: noon.Add(-2 * time.Second), Duration: 1200 * time.Microsecond, OK: true, StatusCode: 200}
	for _, change := range like {
		change(&u)
	}
	u.InRotation = u.Status == healthcheck.Up && !u.Ejected && u.Mode == healthcheck.Ready
	return u
}

func isDown(u *upstreams.Upstream) {
	u.Status, u.Failures, u.Reason = healthcheck.Down, 3, "connection refused"
	u.Last = healthcheck.Report{Time: noon.Add(-9 * time.Second), Reason: u.Reason, Detail: "dial tcp: refused"}
	u.Next, u.RetireAt = noon.Add(11*time.Second), noon.Add(200*time.Second)
}

func isRetired(u *upstreams.Upstream) {
	u.Status, u.Failures, u.Reason = healthcheck.Retired, 10, "timeout"
	u.Next = noon.Add(250 * time.Second)
}

func isUnknown(u *upstreams.Upstream) { u.Status = healthcheck.Unknown }
func isFailing(u *upstreams.Upstream) { u.Failures = 1 }
func isBackup(u *upstreams.Upstream)  { u.Backup = true }
func isInMaint(u *upstreams.Upstream) { u.Mode = healthcheck.Maint }
func isDrained(u *upstreams.Upstream) { u.Mode, u.Lease = healthcheck.Drain, noon.Add(10*time.Minute) }
func isEjected(u *upstreams.Upstream) { u.Ejected, u.EjectedUntil = true, noon.Add(7*time.Second) }
func isOnTrial(u *upstreams.Upstream) { u.Ejected, u.EjectedUntil = true, noon.Add(-time.Second) }
func unchecked(u *upstreams.Upstream) {
	u.Checked, u.Next, u.Last = false, time.Time{}, healthcheck.Report{}
}
func hasTraffic(u *upstreams.Upstream) { u.InFlight, u.Requests, u.Errors = 3, 12345, 7 }

// crowd returns a pool of so many upstreams, every one of the first so many
// being down.
func crowd(name string, n, dead int) poolPicture {
	p := poolPicture{Name: name}
	for i := range n {
		u := is(fmt.Sprintf("10.%d.%d.%d:8080", i>>16, i>>8&255, i&255), hasTraffic)
		if i >= n-dead {
			u = is(u.Address, isDown)
		}
		p.add(u)
	}
	return p
}
