package integration

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// The backup serves only while neither of the others is in rotation.
func TestExampleBackup(t *testing.T) {
	t.Parallel()
	var fit [2]atomic.Bool
	fit[0].Store(true)
	fit[1].Store(true)
	one, two, backup := newBackend(t, switched(&fit[0]), nil), newBackend(t, switched(&fit[1]), nil), newBackend(t, nil, nil)
	addr := freeAddr(t)
	c := startCaddy(t, exampleText(t, "backup", "10.0.0.11:8080", one.addr, "10.0.0.12:8080", two.addr, "10.1.0.11:8080", backup.addr,
		"example.com {", "http://"+addr+" {"))
	c.waitStatus(t, "up", one.addr, two.addr, backup.addr)
	if row := c.upstream(t, backup.addr); !row.Backup {
		t.Errorf("the backup is shown as %+v", row)
	}
	share := func(want ...int) {
		t.Helper()
		if got := shares(turns(t, addr, 4), one.addr, two.addr, backup.addr); fmt.Sprint(got[:3]) != fmt.Sprint(want) {
			t.Errorf("shares %v, want %v", got, want)
		}
	}
	share(2, 2, 0)
	fit[0].Store(false)
	c.checkNow(t, "down", one.addr)
	share(0, 4, 0)
	fit[1].Store(false)
	c.checkNow(t, "down", two.addr)
	share(0, 0, 4)
	fit[0].Store(true)
	c.checkNow(t, "up", one.addr)
	share(4, 0, 0)
	fit[1].Store(true)
	c.checkNow(t, "up", two.addr)
	share(2, 2, 0)
}
