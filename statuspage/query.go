package statuspage

import (
	"net/http"
	"strings"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// maxSearch is how long a search may be; what is more is cut off.
const maxSearch = 100

// query is what a viewer wants to see.
type query struct {
	// Search is words that all have to be there, in lower case.
	Search string
	// Troubled limits it to what needs attention.
	Troubled bool
}

func queryOf(r *http.Request) query {
	values := r.URL.Query()
	search := strings.ToLower(strings.ToValidUTF8(values.Get("q"), ""))
	if len(search) > maxSearch {
		search = strings.ToValidUTF8(search[:maxSearch], "")
	}
	troubled := values.Get("troubled")
	return query{
		Search:   strings.Join(strings.Fields(search), " "),
		Troubled: troubled != "" && troubled != "0",
	}
}

// shows reports whether an upstream is to be shown.
func (q query) shows(u *upstreams.Upstream) bool {
	if q.Troubled && rankOf(u) == well {
		return false
	}
	for word := range strings.FieldsSeq(q.Search) {
		if !has(u.Address, word) && !has(u.Pool, word) && !has(u.Reason, word) &&
			!has(u.Status.String(), word) && !has(trafficOf(u).Word, word) {
			return false
		}
	}
	return true
}

// has reports whether text has a word, whose case does not matter.
func has(text, word string) bool { return strings.Contains(strings.ToLower(text), word) }
