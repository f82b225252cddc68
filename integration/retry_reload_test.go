package integration

import (
	"net/http"
	"strings"
	"testing"
)

// A request that waits to be retried while its config is replaced is retried
// all the same.
func TestRetryAcrossReload(t *testing.T) {
	t.Parallel()
	failing := make(chan struct{}, 10)
	a := newBackend(t, nil, func(http.ResponseWriter, *http.Request) {
		failing <- struct{}{}
		panic(http.ErrAbortHandler)
	})
	b := newBackend(t, nil, nil)
	site, url := balancedSite(t, addrs(a, b), "lb_policy first", "lb_try_duration 20s", "lb_try_interval 2s")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr, b.addr)
	type answer struct {
		status int
		body   string
	}
	answered := make(chan answer, 1)
	go func() {
		status, body := get(t, url)
		answered <- answer{status, body}
	}()
	<-failing
	c.reloadCaddyfile(t, strings.Replace(site, "lb_policy first", "lb_policy first\nhealth_interval 3s", 1))
	if got := <-answered; got.status != http.StatusOK || got.body != b.addr {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}
