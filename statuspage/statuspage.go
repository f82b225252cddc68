// Package statuspage is a page that shows the upstreams of all load_balance
// handlers of the process to people: the directive load_balance_status and the
// handler http.handlers.load_balance_status.
//
//	upstreams --> picture --query--> frame --templates--> page
//	                                   |
//	                                  hub --what changed--> viewers
//
// A picture is what is known about all upstreams at a time, a frame the part
// of it that one query shows: a bounded number of rows, troubled ones first.
// A page is a frame rendered whole. Its script listens to a stream of what
// has changed since, rendered by the same templates; without script, the page
// loads itself again. The hub takes the pictures for all who listen, and only
// while somebody does.
package statuspage

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler answers with a live page that shows the upstreams of all
// load_balance handlers: which are up, which are not and why, when they are
// checked next, and what they do. It shows the same data as the admin API at
// /load_balance/upstreams, as JSON too if the request accepts
// application/json, and changes nothing.
//
// It has no options and works at any path. Whoever can reach it sees the
// addresses of all upstreams: put it behind a matcher or an authentication of
// your choice.
//
// The query parameter `q` limits what is shown to the upstreams that have all
// of its words in pool, address, status or reason; `troubled=1` to those that
// need attention.
type Handler struct {
	// ending is closed when the server shuts down: streams must not hold that
	// up.
	ending chan struct{}
	end    func()
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.load_balance_status",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets up the handler.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.ending = make(chan struct{})
	h.end = sync.OnceFunc(func() { close(h.ending) })
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(h.end)
	}
	return nil
}

// Cleanup ends the streams. It may be called without Provision.
func (h *Handler) Cleanup() error {
	if h.end != nil {
		h.end()
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	protect(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return caddyhttp.Error(http.StatusMethodNotAllowed, fmt.Errorf("method %s: the status page is read only", r.Method))
	}
	q := queryOf(r)
	switch {
	case r.URL.Query().Has("stream"):
		return h.serveStream(w, r, q)
	case prefersJSON(r.Header):
		return serveJSON(w, q)
	}
	return servePage(w, q)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
