package upstreams

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// placeholderPrefix begins the placeholders of what a request can tell about
// its attempts, so far or in the end:
//
//	pool      the name of the pool
//	upstream  the address of the latest attempt's upstream
//	status    the status of that upstream now
//	attempts  how many attempts there were
//	tried     the addresses of the attempts in order, with commas; of very
//	          many, the latest ones
const placeholderPrefix = "http.load_balance."

// recordKey is the placeholder whose value is the record itself.
const recordKey = placeholderPrefix + "record"

// tell makes the placeholders known to the request's replacer. If another
// pool has had the request before, they tell about this one from now on.
func (r *Request) tell(repl *caddy.Replacer) {
	if known, _ := repl.Get(recordKey); known != nil {
		known.(*Request).successor = r
		return
	}
	repl.Map(r.placeholder)
}

// placeholder is a caddy.ReplacerFunc.
func (r *Request) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholderPrefix)
	if !ours {
		return nil, false
	}
	if key == recordKey {
		return r, true
	}
	if r.successor != nil {
		r = r.successor
	}
	switch name {
	case "pool":
		return r.pool.Name(), true
	case "upstream":
		if u := r.last(); u != nil {
			return u.address, true
		}
		return "", true
	case "status":
		if u := r.last(); u != nil {
			return u.target.Status().String(), true
		}
		return "", true
	case "attempts":
		return r.attempts, true
	case "tried":
		list := make([]string, len(r.path))
		for i, u := range r.path {
			list[i] = u.address
		}
		return strings.Join(list, ","), true
	}
	return nil, false
}
