package statuspage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// The parts of a page. All are comparable: one that is equal to what was sent
// last is not sent again. Traffic is no part of them, as it always changes.

// instant is a time in milliseconds, 0 for none.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixMilli())
}

// summary is the head of the page.
type summary struct {
	Health health
	// Pools counts the pools, Dead those without anything in rotation.
	Pools, Dead int
}

// note says what of everything is shown.
type note struct {
	Query query
	// Matched upstreams match the query, Shown are those that are shown.
	Matched, Shown int
	// Pools counts all pools, Hidden those that would match, but do not fit.
	Pools, Hidden int
}

// pool is the head of a pool.
type pool struct {
	Name   string
	Health health
	// Shown upstreams are those with a row.
	Shown int
}

// row is an upstream.
type row struct {
	Address         string
	Status          string
	Rank            rank
	Traffic         traffic
	Backup, Checked bool
	Weight          int
	Since           instant
	Failures, Most  int
	Reason          string
	LastOK          bool
	Last            instant
	LastTook        time.Duration
	LastCode        int
	Next, RetireAt  instant
	EjectedUntil    instant
	// Ejected says that it is, Held that it must not prove itself yet.
	Ejected, Held bool
	Retired       bool
	Mode          healthcheck.Mode
	Lease         instant
	// History is the latest results, oldest first: p for passed, f for
	// failed, x for failed but not counted.
	History string
}

// entries is how many transitions are shown.
const entries = 10

// log is the latest transitions, newest first; those that are left have no
// time.
type log [entries]entry

type entry struct {
	At                      instant
	Pool, Address, From, To string
	Reason                  string
}

// maxReason is how much of an error text is shown.
const maxReason = 200

func shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}

// rowOf returns the row of an upstream of a pool.
func rowOf(u *upstreams.Upstream, pool *poolPicture, now time.Time) row {
	r := row{
		Address: u.Address, Status: u.Status.String(), Rank: rankOf(u), Traffic: trafficOf(u),
		Backup: u.Backup, Checked: u.Checked, Weight: u.Weight, Since: instantOf(u.Since),
		Failures: u.Failures, Most: u.MaxFailures, Reason: shorten(u.Reason),
		LastOK: u.Last.OK, Last: instantOf(u.Last.Time), LastTook: u.Last.Duration, LastCode: u.Last.StatusCode,
		Next: instantOf(u.Next), RetireAt: instantOf(u.RetireAt),
		Ejected: u.Ejected, Held: u.EjectedUntil.After(now), EjectedUntil: instantOf(u.EjectedUntil),
		Retired: u.Status == healthcheck.Retired,
		Mode:    u.Mode, Lease: instantOf(u.Lease),
	}
	if u.Backup && u.InRotation && pool.Health.Standby > 0 {
		r.Traffic = traffic{"standby", "standby"}
	}
	if !u.Last.OK && u.Last.Detail != "" && u.Last.Reason == u.Reason {
		r.Reason = shorten(u.Reason + ": " + u.Last.Detail)
	}
	if u.Target != nil {
		r.History = historyOf(u.Target.Explain().History)
	}
	return r
}

// historyOf writes down results, which come newest first.
func historyOf(past []healthcheck.Past) string {
	marks := make([]byte, len(past))
	for i, p := range past {
		mark := byte('p')
		switch {
		case !p.OK && p.Counted:
			mark = 'f'
		case !p.OK:
			mark = 'x'
		}
		marks[len(past)-1-i] = mark
	}
	return string(marks)
}

func logOf(transitions []healthcheck.Change) log {
	var l log
	for i, t := range transitions {
		if i == entries {
			break
		}
		l[i] = entry{instantOf(t.Time), t.Pool, t.Address, t.From, t.To, shorten(t.Reason)}
	}
	return l
}

// Keys name the parts in the page: they are the ids of its elements.
const (
	summaryKey = "summary"
	noteKey    = "note"
	logKey     = "log"
)

func poolKey(pool string) string { return "p" + digest(pool) }

func rowKey(pool, address string) string { return "r" + digest(pool+"\x00"+address) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
