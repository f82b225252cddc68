package integration

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A request that waits to be retried while its config is replaced is retried
// all the same.
func TestRetryAcrossReload(t *testing.T) {
	t.Parallel()
	failing := make(chan struct{}, 100)
	var mended atomic.Bool
	a := newBackend(t, nil, func(http.ResponseWriter, *http.Request) {
		if !mended.Load() {
			failing <- struct{}{}
			panic(http.ErrAbortHandler)
		}
	})
	site, url := balancedSite(t, a.addr, "lb_try_duration 20s", "lb_try_interval 2s")
	c := startCaddy(t, site)
	c.waitInRotation(t, a.addr)
	answered := make(chan int, 1)
	go func() {
		status, _ := get(t, url)
		answered <- status
	}()
	<-failing
	c.reloadCaddyfile(t, strings.Replace(site, "lb_try_interval 2s", "lb_try_interval 2s\nhealth_interval 3s", 1))
	mended.Store(true)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}
