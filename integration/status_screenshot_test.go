package integration

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	screenshotFlag = flag.String("screenshot", "", "where to save a screenshot of the status page")
	screenshotAs   = flag.String("screenshot-as", "light", "how the screenshot is to look: light, dark, phone")
)

// TestStatusScreenshot makes the README's picture of the status page, in a
// minute and a half:
//
//	go test ./integration -run TestStatusScreenshot -screenshot "$PWD/docs/status.png"
func TestStatusScreenshot(t *testing.T) {
	if *screenshotFlag == "" {
		t.Skip("needs -screenshot <file>")
	}
	browser := startBrowser(t)
	site := freeAddr(t)

	// backends that look like a network's
	bad := make(map[string]*atomic.Int64) // the status of health checks
	erring := new(atomic.Int64)
	address := func(host, port int) string { return fmt.Sprintf("127.0.10.%d:%d", host, port) }
	start := func(host, port int, serve http.HandlerFunc) {
		status := new(atomic.Int64)
		status.Store(http.StatusOK)
		bad[address(host, port)] = status
		newBackendAt(t, address(host, port), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(int(status.Load()))
		}, serve)
	}
	work := func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(20+time.Now().UnixNano()%40) * time.Millisecond)
		fmt.Fprint(w, "hello")
	}
	for host := 11; host <= 16; host++ {
		start(host, 8080, work)
	}
	start(17, 8080, func(w http.ResponseWriter, r *http.Request) {
		if erring.Load() > 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		work(w, r)
	})
	start(31, 8080, work)
	for host := 21; host <= 22; host++ {
		start(host, 9000, work)
	}

	c := startCaddy(t, fmt.Sprintf(`http://%s {
	load_balance_status /status
	@api path /api*
	load_balance @api %s {
		name api
		health_uri /healthz
		health_interval 2s
	}
	load_balance %s {
		name web
		upstream %s {
			weight 2
		}
		upstream %s {
			backup
		}
		health_uri /healthz
		health_interval 1s
		health_increment 1s
		health_jitter 0
		fail_duration 10s
		max_fails 3
		unhealthy_status 500
	}
}`, site, address(21, 9000)+" "+address(22, 9000),
		strings.Join([]string{address(12, 8080), address(13, 8080), address(14, 8080), address(15, 8080), address(16, 8080), address(17, 8080)}, " "),
		address(11, 8080), address(31, 8080)))

	eventually(t, "all are up", func() bool {
		for _, u := range c.upstreams(t) {
			if u.Status != "up" {
				return false
			}
		}
		return true
	})
	web := startLoad("http://"+site+"/", http.MethodGet, "", 60, patience)
	api := startLoad("http://"+site+"/api", http.MethodGet, "", 25, patience)
	defer web.finish()
	defer api.finish()
	as := map[string]look{
		"light": {width: 1200, height: 900},
		"dark":  {width: 1200, height: 900, dark: true},
		"phone": {width: 390, height: 844},
	}
	tb := browser.open(t, "http://"+site+"/status", as[*screenshotAs])

	bad[address(15, 8080)].Store(http.StatusServiceUnavailable)
	time.Sleep(20 * time.Second)
	c.act(t, "drain?upstream="+address(16, 8080)+"&for=15m")
	time.Sleep(18 * time.Second)
	bad[address(14, 8080)].Store(http.StatusBadGateway)
	time.Sleep(10 * time.Second)
	erring.Store(1)
	c.waitStatus(t, "retired", address(15, 8080))
	time.Sleep(4 * time.Second)
	eventually(t, "ejected", func() bool {
		return c.upstream(t, address(17, 8080)).EjectedUntil != nil
	})
	time.Sleep(1200 * time.Millisecond)

	if err := os.WriteFile(*screenshotFlag, tb.screenshot(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if problems := tb.console(); len(problems) > 0 {
		t.Errorf("console: %s", problems)
	}
}
