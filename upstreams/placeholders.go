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

// placeholders returns the placeholders of the request with these variables.
// If several pools have it one after the other, they tell about the last one.
func placeholders(vars map[string]any) caddy.ReplacerFunc {
	return func(key string) (any, bool) {
		if name, ours := strings.CutPrefix(key, placeholderPrefix); ours {
			if r, ok := vars[recordVar].(*Request); ok {
				return r.placeholder(name)
			}
		}
		return nil, false
	}
}

// placeholder returns the value of a placeholder.
func (r *Request) placeholder(name string) (any, bool) {
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
