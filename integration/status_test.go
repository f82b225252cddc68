package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// statusSite is a site with the page at two places, and a pool.
const statusSite = `http://%s {
	load_balance_status /status
	handle_path /board* {
		load_balance_status
	}
	load_balance %s {
		name %s
		health_uri /health
	}
}`

// getAs sends a request with a method and an Accept header.
func getAs(t testing.TB, method, url, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// The page is there wherever it is mounted, as HTML and as JSON, and nothing
// but read.
func TestStatusPage(t *testing.T) {
	a, b := newBackend(t, nil, nil), newBackend(t, answer(http.StatusServiceUnavailable), nil)
	site := freeAddr(t)
	c := startCaddy(t, fmt.Sprintf(statusSite, site, addrs(a, b), "web"))
	c.waitStatus(t, "up", a.addr)
	c.waitStatus(t, "down", b.addr)
	for _, path := range []string{"/status", "/board", "/board/", "/board/x"} {
		url := "http://" + site + path
		resp, body := getAs(t, http.MethodGet, url, "text/html")
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, a.addr) || !strings.Contains(body, "status 503") {
			t.Errorf("%s: status %d: %.300s", path, resp.StatusCode, body)
		}
		if _, body = getAs(t, http.MethodGet, url+"?q="+b.addr, "text/html"); strings.Contains(body, `class="address">`+a.addr) {
			t.Errorf("%s: the search for %s shows %s", path, b.addr, a.addr)
		}
		if resp, body = getAs(t, http.MethodHead, url, ""); resp.StatusCode != http.StatusOK || body != "" {
			t.Errorf("HEAD %s: status %d", path, resp.StatusCode)
		}
		if resp, _ = getAs(t, http.MethodPost, url, ""); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d", path, resp.StatusCode)
		}
		_, body = getAs(t, http.MethodGet, url, "application/json")
		var shown []admin.Upstream
		if err := json.Unmarshal([]byte(body), &shown); err != nil || len(shown) != 2 || shown[1].Status != "down" {
			t.Errorf("%s: %v: %s", path, err, body)
		}
		var plain, same []object
		_, list := c.api(t, http.MethodGet, "/load_balance/upstreams?upstream="+b.addr)
		_ = json.Unmarshal(list, &same)
		_, body = getAs(t, http.MethodGet, url+"?troubled=1", "application/json")
		if err := json.Unmarshal([]byte(body), &plain); err != nil || !reflect.DeepEqual(plain, same) {
			t.Errorf("%s: %v: %s\nbut the admin API has %s", path, err, body, list)
		}
	}
	if resp, body := getAs(t, http.MethodGet, "http://"+site+"/", ""); body != a.addr {
		t.Errorf("all else goes to the backends: status %d, %s", resp.StatusCode, body)
	}
}

// Streams hold up neither a reload nor the end, and leave nothing behind.
func TestStatusStreamsEnd(t *testing.T) {
	a := newBackend(t, nil, nil)
	site := freeAddr(t)
	config := fmt.Sprintf(statusSite, site, a.addr, "web")
	c := startCaddy(t, config)
	c.waitStatus(t, "up", a.addr)
	before := c.goroutines(t)

	// A stream that is opened just when a config goes may still be one of it,
	// and end before it has begun.
	const tries = 3
	open := func() (first string, over <-chan struct{}, leave context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		var (
			resp  *http.Response
			lines *bufio.Reader
		)
		for try := 1; !strings.HasPrefix(first, "data: "); try++ {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+site+"/status?stream", nil)
			var err error
			resp, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err == nil {
				if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" || resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %s", resp.StatusCode, kind)
				}
				lines = bufio.NewReader(resp.Body)
				for err == nil && !strings.HasPrefix(first, "data: ") {
					first, err = lines.ReadString('\n')
				}
			}
			if err != nil && try == tries {
				t.Fatal(err)
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, lines)
			resp.Body.Close()
		}()
		return first, ended, cancel
	}
	for range 20 {
		first, _, leave := open()
		if !strings.Contains(first, a.addr) {
			t.Errorf("first message %.200s", first)
		}
		defer leave()
		leave()
	}
	eventually(t, "those who left are forgotten", func() bool { return c.goroutines(t) <= before+3 })

	_, over, _ := open()
	if err := c.load("text/caddyfile", c.caddyfile(config, "grace_period 1m")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-over:
	case <-time.After(2 * time.Second):
		t.Error("the stream goes on after the reload")
	}
	_, over, _ = open()
	began := time.Now()
	c.stop(t)
	<-over
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// With 10,000 upstreams, the page is as quick and as small as with 200.
func TestStatusPageOfTenThousand(t *testing.T) {
	site := freeAddr(t)
	startCaddy(t, fmt.Sprintf(`http://%s {
	load_balance_status /status
	load_balance 10.0.0.1:10000-19999 {
		name crowd
		health_protocol none
	}
}`, site))
	var slowest time.Duration
	for _, search := range []string{"", "?q=19998", "?troubled=1"} {
		began := time.Now()
		resp, body := getAs(t, http.MethodGet, "http://"+site+"/status"+search, "text/html")
		slowest = max(slowest, time.Since(began))
		if rows := strings.Count(body, `<tr role="row" id=`); resp.StatusCode != http.StatusOK || rows > 200 || len(body) > 700_000 {
			t.Errorf("%s: status %d, %d rows, %d bytes", search, resp.StatusCode, rows, len(body))
		}
		if search == "?q=19998" && !strings.Contains(body, "10.0.0.1:19998") {
			t.Error("the search does not find 10.0.0.1:19998")
		}
	}
	if slowest > 3*time.Second {
		t.Errorf("the slowest page took %s", slowest)
	}
}
