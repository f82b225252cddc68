package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Tests that run the examples, with nothing changed but addresses and times.
// The examples quickstart and https are run by tests of their own.

// exampleText returns an example's Caddyfile with replacements, pairs of old
// and new text. All of the old has to be there.
func exampleText(t testing.TB, name string, replace ...string) string {
	t.Helper()
	text := readExample(t, name)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("examples/%s has no %q", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

func readExample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "examples", name, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exampleAddresses replaces the first addresses that an example has by others.
func exampleAddresses(backends ...*backend) []string {
	var pairs []string
	for i, b := range backends {
		pairs = append(pairs, fmt.Sprintf("10.0.0.%d:8080", 11+i), b.addr)
	}
	return pairs
}

func TestExamplesAreFormatted(t *testing.T) {
	files, err := filepath.Glob("../examples/*/Caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		formatted, err := newCaddy(t).command(t, "fmt", path).Output()
		if text := readExample(t, filepath.Base(filepath.Dir(path))); string(formatted) != text {
			t.Errorf("%s is not formatted: %v", file, err)
		}
	}
}

// checkNow has an upstream checked and waits until it has the status.
func (c *caddyProcess) checkNow(t testing.TB, status string, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		c.act(t, "check?upstream="+address)
		c.waitStatus(t, status, address)
	}
}

// A browser is a client with cookies.
type browser struct{ http.Client }

func newBrowser() *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{http.Client{Timeout: patience, Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// A visitor stays with a backend, by cookie, and moves when it is out, for
// good.
func TestExampleSticky(t *testing.T) {
	t.Parallel()
	var fit atomic.Bool
	fit.Store(true)
	backends := []*backend{newBackend(t, nil, nil), newBackend(t, nil, nil), newBackend(t, switched(&fit), nil)}
	third := backends[2]
	addr := freeAddr(t)
	c := startCaddy(t, exampleText(t, "sticky", append(exampleAddresses(backends...), "example.com {", "http://"+addr+" {")...))
	for _, b := range backends {
		c.waitStatus(t, "up", b.addr)
	}

	browsers := make([]*browser, 40)
	homes := make([]string, len(browsers))
	visit := func(i int) string {
		t.Helper()
		return bodyOf(t, &browsers[i].Client, "http://"+addr)
	}
	left := 0
	for i := range browsers {
		browsers[i] = newBrowser()
		homes[i] = visit(i)
		if homes[i] == third.addr {
			left++
		}
	}
	if left == 0 || left == len(browsers) {
		t.Errorf("%d of %d are at one of three backends", left, len(browsers))
	}
	stay := func() {
		t.Helper()
		for i, home := range homes {
			for range 3 {
				if served := visit(i); served != home {
					t.Errorf("at %s, was at %s", served, home)
				}
			}
		}
	}
	stay()
	fit.Store(false)
	c.checkNow(t, "down", third.addr)
	for i, home := range homes {
		served := visit(i)
		if served == third.addr || home != third.addr && served != home {
			t.Errorf("at %s, was at %s", served, home)
		}
		homes[i] = served
	}
	fit.Store(true)
	c.checkNow(t, "up", third.addr)
	stay()

	_, _, header := getHeader(t, "http://"+addr)
	if cookie := header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "lb_shop=") || !strings.Contains(cookie, "Max-Age=43200") {
		t.Errorf("got cookie %q", cookie)
	}
}

// Connections stay open over a reload, and over a flip of their backend; new
// ones go to the backend with the fewest. Without stream_close_delay the
// reload closes them, as the example says.
func TestExampleWebSockets(t *testing.T) {
	t.Parallel()
	var fit atomic.Bool
	fit.Store(true)
	one, two := newBackend(t, nil, echoWebSocket), newBackend(t, switched(&fit), echoWebSocket)
	addr := freeAddr(t)
	text := exampleText(t, "websockets", append(exampleAddresses(one, two), "example.com {", "http://"+addr+" {")...)
	c := startCaddy(t, text)
	c.waitStatus(t, "up", one.addr, two.addr)
	open := func(n int) (list []*webSocket) {
		t.Helper()
		for range n {
			list = append(list, openWebSocket(t, addr))
		}
		return list
	}
	alive := func(list []*webSocket) {
		t.Helper()
		for i, ws := range list {
			if err := ws.round(i); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	under := func(first, second uint64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d and %d are open", first, second), func() bool {
			return fmt.Sprint(c.upstream(t, one.addr).InFlight, c.upstream(t, two.addr).InFlight) == fmt.Sprint(first, second)
		})
	}
	list := open(4)
	under(2, 2)
	fit.Store(false)
	c.checkNow(t, "down", two.addr)
	list = append(list, open(1)...)
	under(3, 2)
	alive(list)
	c.reloadCaddyfile(t, text)
	alive(list)
	under(3, 2)
	fit.Store(true)
	c.checkNow(t, "up", two.addr)
	list = append(list, open(1)...)
	under(3, 3)
	alive(list)
	for _, ws := range list {
		if err := ws.end(); err != nil {
			t.Error(err)
		}
	}
	under(0, 0)

	hasty := strings.Replace(text, "stream_close_delay 5m", "", 1)
	c.reloadCaddyfile(t, hasty)
	list = open(2)
	c.reloadCaddyfile(t, hasty)
	under(0, 0)
	for _, ws := range list {
		if err := ws.round(0); err == nil {
			t.Error("a connection without stream_close_delay is open after a reload")
		}
	}
}

// Sockets that are there are served, one that comes later soon after it comes.
func TestExampleUnix(t *testing.T) {
	t.Parallel()
	first := newWitnessOn(t, listenUnix(t), nil)
	later := filepath.Join(filepath.Dir(strings.TrimPrefix(first.addr, "unix/")), "later")
	addr := freeAddr(t)
	c := startCaddy(t, exampleText(t, "unix", "unix//run/app/1.sock", first.addr, "unix//run/app/2.sock", "unix/"+later,
		"example.com {", "http://"+addr+" {"))
	c.waitStatus(t, "up", first.addr)
	c.waitStatus(t, "down", "unix/"+later)
	if row := c.upstream(t, "unix/"+later); row.Reason != "no such socket" {
		t.Errorf("reason %q", row.Reason)
	}
	for _, served := range turns(t, addr, 4) {
		if served != first.addr {
			t.Errorf("served by %s", served)
		}
	}
	ln, err := net.Listen("unix", later)
	if err != nil {
		t.Fatal(err)
	}
	second := newWitnessOn(t, ln, nil)
	within(t, lenient(3*time.Second), "the second one is up", func() bool { return c.upstream(t, second.addr).Status == "up" })
	if got := shares(turns(t, addr, 6), first.addr, second.addr); fmt.Sprint(got) != "[3 3 0]" {
		t.Errorf("shares %v", got)
	}
	for _, w := range []*witness{first, second} {
		if probe := w.probe(t); probe.uri != "/healthz" {
			t.Errorf("the check was %+v", probe)
		}
	}
}
