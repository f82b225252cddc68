package statuspage

import (
	"net/http"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// serveJSON answers with an array as the admin API's, of all upstreams that
// the query shows.
func serveJSON(w http.ResponseWriter, q query) error {
	w.Header().Set("Content-Type", "application/json")
	_ = admin.WriteArray(w, q.each, admin.NewUpstream) // an error means that the client has gone away
	return nil
}

// each calls do for every upstream that the query shows until it returns false.
func (q query) each(do func(upstreams.Upstream) bool) {
	more := true
	for _, pool := range upstreams.Pools() {
		pool.Each(func(u upstreams.Upstream) bool {
			more = !q.shows(&u) || do(u)
			return more
		})
		if !more {
			return
		}
	}
}
