package integration

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// A dnsServer is a DNS server on loopback.
type dnsServer struct {
	addr string

	mu      sync.Mutex
	records map[string][]string // by name and type, in the form of zone files
	failing bool
	asked   int
}

func newDNSServer(t testing.TB) *dnsServer {
	t.Helper()
	ln := listenStable(t)
	conn, err := net.ListenPacket("udp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{addr: ln.Addr().String(), records: make(map[string][]string)}
	for _, server := range []*dns.Server{{PacketConn: conn, Handler: s}, {Listener: ln, Handler: s}} {
		go func() { _ = server.ActivateAndServe() }()
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return s
}

// set sets the records of a name and a type.
func (s *dnsServer) set(name, kind string, values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name+" "+kind] = values
}

// fail makes it answer SERVFAIL, or not any more.
func (s *dnsServer) fail(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = on
}

// queries returns how many queries there were.
func (s *dnsServer) queries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// ServeDNS implements dns.Handler.
func (s *dnsServer) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	answer := new(dns.Msg).SetReply(query)
	if s.failing {
		answer.Rcode = dns.RcodeServerFailure
		_ = w.WriteMsg(answer)
		return
	}
	for _, q := range query.Question {
		kind := dns.TypeToString[q.Qtype]
		for _, value := range s.records[q.Name+" "+kind] {
			if record, err := dns.NewRR(fmt.Sprintf("%s 1 IN %s %s", q.Name, kind, value)); err == nil {
				answer.Answer = append(answer.Answer, record)
			}
		}
	}
	_ = w.WriteMsg(answer)
}

// listenAll opens listeners on several addresses, all with one port.
func listenAll(t testing.TB, ips ...string) (listeners []net.Listener, port string) {
	t.Helper()
	for range 100 {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		for _, ip := range ips {
			ln, err := net.Listen("tcp", net.JoinHostPort(ip, port))
			if err != nil {
				break
			}
			listeners = append(listeners, ln)
		}
		if len(listeners) == len(ips) {
			return listeners, port
		}
		for _, ln := range listeners {
			_ = ln.Close()
		}
		listeners = nil
	}
	t.Fatal("no port is free on all addresses")
	return nil, ""
}
