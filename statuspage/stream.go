package statuspage

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// writeWithin is how long a viewer may take for a message.
const writeWithin = 10 * time.Second

// viewing is the hub of the process: all handlers show the same.
var viewing = newHub(takePicture, upstreams.NextChange)

// serveStream answers with server-sent events until the client goes away, is
// too slow, or the server shuts down.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, q query) error {
	header := w.Header()
	if r.Method == http.MethodHead {
		header.Set("Content-Type", "text/event-stream")
		return nil
	}
	who, err := viewing.join(q)
	if err != nil {
		header.Set("Retry-After", "5")
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	defer viewing.leave(who)
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // for proxies that would wait for the end

	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	// a browser that lost the stream is to come back soon: at a reload of the
	// config, all do
	if !send("retry: 1000\n\n") {
		return nil
	}
	for {
		select {
		case text, ok := <-who.messages:
			if !ok || !send("data: %s\n\n", text) {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-h.ending:
			return nil
		}
	}
}
