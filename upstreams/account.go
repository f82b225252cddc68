package upstreams

import (
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// accounts keeps the books of all upstreams over reloads, by accountKey, and
// those of pools, by ledgerKey.
var accounts = caddy.NewUsagePool()

type accountKey struct{ pool, address string }

// account is the traffic of one upstream of one pool. It goes with the names
// of both, whatever else a config changes.
type account struct {
	// host counts the requests under way. Caddy's code does the counting.
	host *reverseproxy.Host
	// requests counts attempts from their beginning, retries those of them
	// that were not the first of their request.
	requests, retries atomic.Uint64
	// outcomes counts how attempts ended.
	outcomes [numOutcomes]atomic.Uint64
	// failures are those that passive health checks count.
	failures failures
}

func openAccount(key accountKey) *account {
	acc, _, _ := accounts.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &account{host: new(reverseproxy.Host)}, nil
	})
	return acc.(*account)
}

func closeAccount(key accountKey) { _, _ = accounts.Delete(key) }

// ended counts an attempt that ended so.
func (a *account) ended(how Outcome) { a.outcomes[how].Add(1) }

// Destruct implements caddy.Destructor.
func (*account) Destruct() error { return nil }

type ledgerKey string

// ledger is what happens in a pool at no upstream. It goes with the name of
// the pool.
type ledger struct {
	// unserved counts the requests for which there was no upstream.
	unserved atomic.Uint64
}

func openLedger(pool string) *ledger {
	l, _, _ := accounts.LoadOrNew(ledgerKey(pool), func() (caddy.Destructor, error) { return new(ledger), nil })
	return l.(*ledger)
}

func closeLedger(pool string) { _, _ = accounts.Delete(ledgerKey(pool)) }

// Destruct implements caddy.Destructor.
func (*ledger) Destruct() error { return nil }
