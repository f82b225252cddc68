package statuspage

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// serveJSON answers with an array as the admin API's, of all upstreams that
// the query shows. They are written one by one, so that no answer is built
// whole in memory.
func serveJSON(w http.ResponseWriter, q query) error {
	w.Header().Set("Content-Type", "application/json")
	before := "["
	var err error
	for _, pool := range upstreams.Pools() {
		pool.Each(func(u upstreams.Upstream) bool {
			if !q.shows(&u) {
				return true
			}
			var object []byte
			if object, err = json.Marshal(admin.NewUpstream(u)); err == nil {
				_, err = io.WriteString(w, before+string(object))
			}
			before = ",\n"
			return err == nil
		})
		if err != nil {
			return nil //nolint:nilerr // the client has gone away, after the header
		}
	}
	end := "]\n"
	if before == "[" {
		end = "[]\n"
	}
	_, _ = io.WriteString(w, end)
	return nil
}
