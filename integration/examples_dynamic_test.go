package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Backends found in DNS are checked, serve while they are well, and come and
// go with their records: by SRV records, and by A records.
func TestExampleDynamic(t *testing.T) {
	t.Parallel()
	resolver := newDNSServer(t)
	listeners, port := listenAll(t, "127.0.2.1", "127.0.2.2", "127.0.2.3")
	var sick atomic.Bool // the second one
	health := func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	var backends []*backend
	var addresses []string
	for i, ln := range listeners {
		address := ln.Addr().String()
		addresses = append(addresses, address)
		handlers := []http.HandlerFunc{nil, health, nil}
		backends = append(backends, newBackendOn(t, ln, handlers[i], nil))
		resolver.set(fmt.Sprintf("node%d.service.internal.", i), "A", strings.Split(address, ":")[0])
	}
	publish := func(nodes ...int) {
		var ips, services []string
		for _, i := range nodes {
			ips = append(ips, strings.Split(addresses[i], ":")[0])
			services = append(services, "10 10 "+port+" node"+strconv.Itoa(i)+".service.internal.")
		}
		resolver.set("web.internal.", "A", ips...)
		resolver.set("_api._tcp.service.internal.", "SRV", services...)
	}
	publish(0, 1)

	api, www := freeAddr(t), freeAddr(t)
	startCaddy(t, exampleText(t, "dynamic", "api.example.com {", "http://"+api+" {", "www.example.com {", "http://"+www+" {",
		"resolvers 10.0.0.2", "resolvers "+resolver.addr, "web.internal 8080", "web.internal "+port,
		"refresh 10s", "refresh 100ms", "health_uri /healthz", "health_uri /healthz\nhealth_interval 200ms\nhealth_increment 0"))

	// served waits until requests are served by these, in equal shares.
	served := func(nodes ...int) {
		t.Helper()
		for name, site := range map[string]string{"srv": api, "a": www} {
			var got []int
			eventually(t, fmt.Sprintf("%s: %v serve", name, nodes), func() bool {
				got = make([]int, len(backends))
				for range 6 {
					status, body, err := tryGet("http://" + site)
					if i := slices.Index(addresses, body); err == nil && status == http.StatusOK && i >= 0 {
						got[i]++
					}
				}
				want := make([]int, len(backends))
				for _, i := range nodes {
					want[i] = 6 / len(nodes)
				}
				return slices.Equal(got, want)
			})
		}
	}
	served(0, 1)
	if backends[0].probes.Load() == 0 || backends[1].probes.Load() == 0 {
		t.Error("they serve without checks")
	}
	sick.Store(true)
	served(0)
	publish(0, 1, 2)
	served(0, 2)
	sick.Store(false)
	served(0, 1, 2)
	publish(2)
	served(2)
	gone := backends[0].requests.Load()
	if status, body := get(t, "http://"+api); status != http.StatusOK || body != addresses[2] {
		t.Errorf("got status %d, %q", status, body)
	}
	if n := backends[0].requests.Load(); n != gone {
		t.Error("one that is not in DNS any more got a request")
	}
}
