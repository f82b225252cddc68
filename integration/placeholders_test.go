package integration

import (
	"net/http"
	"testing"
)

// Placeholders tell in headers to the client and to the backend, and in access
// logs, which upstream served and how many tries it took.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	a := newBackend(t, nil, hangUp)
	b := newBackend(t, nil, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("X-Try") })
	addr := freeAddr(t)
	c := startCaddy(t, "http://"+addr+` {
	log
	log_append pool {http.load_balance.pool}
	log_append served_by {http.load_balance.upstream}
	log_append tried {http.load_balance.tried}
	log_append attempts {http.load_balance.attempts}
	load_balance `+addrs(a, b)+` {
		name shop
		lb_policy first
		header_up X-Try "{http.load_balance.pool} after {http.load_balance.tried}"
		header_down X-Served-By {http.load_balance.upstream}
		header_down X-Status {http.load_balance.status}
	}
}
`)
	c.waitInRotation(t, a.addr, b.addr)
	status, _, header := getHeader(t, "http://"+addr)
	if status != http.StatusOK || header.Get("X-Served-By") != b.addr || header.Get("X-Status") != "up" {
		t.Errorf("status %d, headers %v", status, header)
	}
	if got := <-seen; got != "shop after "+a.addr {
		t.Errorf("the backend was told %q", got)
	}
	eventually(t, "the request is logged", func() bool { return len(c.logged("handled request")) == 1 })
	for field, want := range map[string]any{
		"pool": "shop", "served_by": b.addr, "tried": a.addr + "," + b.addr, "attempts": 2.0,
	} {
		if got := c.logged("handled request")[0][field]; got != want {
			t.Errorf("logged %s is %v, want %v", field, got, want)
		}
	}
}
