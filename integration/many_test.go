package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// Ten thousand upstreams are listed all, row by row: no answer is built whole.
// How long it takes is logged.
func TestAdminListsManyUpstreams(t *testing.T) {
	const many = 10_000
	site, _ := balancedSite(t, "127.0.0.1:20001-30000", "health_protocol none")
	c := startCaddy(t, site)
	list := func() (spent time.Duration) {
		before := c.spent(t)
		resp, err := http.Get("http://" + c.admin + "/load_balance/upstreams")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var rows []admin.Upstream
		if err := json.NewDecoder(resp.Body).Decode(&rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) != many || rows[0].Address != "127.0.0.1:20001" || rows[many-1].Address != "127.0.0.1:30000" {
			t.Errorf("%d rows", len(rows))
		}
		if resp.ContentLength >= 0 {
			t.Errorf("an answer of %d bytes, built whole", resp.ContentLength)
		}
		return c.spent(t) - before
	}
	list()
	var times []string
	for range 5 {
		times = append(times, list().String())
	}
	t.Logf("time of the process for a list: %s", strings.Join(times, ", "))
}

// spent returns the processor time that Caddy has used.
func (c *caddyProcess) spent(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // at 100 ticks a second
}
