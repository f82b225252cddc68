//go:build linux

package peer

import (
	"bufio"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Gauge is what a Caddy uses at a moment, after garbage has been collected.
type Gauge struct {
	Goroutines int
	// Heap is the live heap, RSS the resident memory, in bytes.
	Heap, RSS float64
}

// looks is how often the heap is looked at: checks leave garbage behind between
// its collection and the look, so that the lowest figure is the truest.
const looks = 5

// Gauge asks the admin endpoint of a Caddy, and the system.
func (r *Process) Gauge() (Gauge, error) {
	g := Gauge{Heap: math.Inf(1)}
	for range looks { // what pools keep survives the first time
		heap, err := pprof("heap?gc=1&debug=1", "# HeapAlloc = ")
		if err != nil {
			return Gauge{}, err
		}
		g.Heap = min(g.Heap, heap)
	}
	goroutines, err := pprof("goroutine?debug=1", "goroutine profile: total ")
	if err != nil {
		return Gauge{}, err
	}
	g.Goroutines = int(goroutines)
	g.RSS, err = rss(r.PID())
	return g, err
}

// pprof returns the number behind a prefix in a profile in text form. Unlike
// the metrics it does not go through all upstreams.
func pprof(profile, prefix string) (float64, error) {
	resp, err := http.Get("http://" + Admin + "/debug/pprof/" + profile)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	number := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			number = rest
		}
	}
	return strconv.ParseFloat(number, 64)
}

// rss returns the resident memory of a process. /proc may know it by another
// number, if it is that of another PID namespace.
func rss(pid int) (float64, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0, err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		if space, err := os.Readlink(folder + "/ns/pid"); err != nil || space != own {
			continue
		}
		status, err := os.ReadFile(folder + "/status")
		if err != nil {
			continue
		}
		fields := make(map[string][]string)
		for line := range strings.Lines(string(status)) {
			if name, values, ok := strings.Cut(line, ":"); ok {
				fields[name] = strings.Fields(values)
			}
		}
		if ids := fields["NSpid"]; len(ids) == 0 || ids[len(ids)-1] != strconv.Itoa(pid) || len(fields["VmRSS"]) == 0 {
			continue
		}
		kilobytes, err := strconv.ParseFloat(fields["VmRSS"][0], 64)
		return kilobytes * 1024, err
	}
	return 0, fmt.Errorf("process %d is not in /proc", pid)
}

// Spent returns the processor time that a process has used.
func Spent(pid int) (time.Duration, error) {
	const scheduled = 2 // rather than user or system time
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &at); err != nil {
		return 0, err
	}
	return time.Duration(at.Nano()), nil
}
