package upstreams

import (
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// accounts keeps the books of all upstreams over reloads, by accountKey.
var accounts = caddy.NewUsagePool()

type accountKey struct{ pool, address string }

// account is the traffic of one upstream of one pool. It goes with the names
// of both, whatever else a config changes.
type account struct {
	// host counts the requests under way. Caddy's code does the counting.
	host *reverseproxy.Host
	// requests counts attempts, retries included; errors those that got no
	// response, the client's own doing left out.
	requests, errors atomic.Uint64
	// rescues counts the attempts that were cut loose and retried elsewhere.
	rescues atomic.Uint64
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

// Destruct implements caddy.Destructor.
func (*account) Destruct() error { return nil }
