package integration

import (
	"context"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An echoBackend is a gRPC server with the echo and the health service.
type echoBackend struct {
	addr   string
	health *health.Server
	calls  chan string // who is called
}

// newEchoBackend starts a backend whose service of that name is SERVING. Calls
// are noted in calls.
func newEchoBackend(t testing.TB, service string, calls chan string) *echoBackend {
	t.Helper()
	ln := listenStable(t)
	b := &echoBackend{addr: ln.Addr().String(), health: health.NewServer(), calls: calls}
	b.serving(service, true)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		message := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(message); err != nil {
			return err
		}
		b.calls <- b.addr
		return stream.SendMsg(message)
	}))
	grpc_health_v1.RegisterHealthServer(server, b.health)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	return b
}

func (b *echoBackend) serving(service string, is bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if is {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	b.health.SetServingStatus(service, status)
}

// Calls over TLS reach the backends whose service is SERVING, in turn. The
// status of the server as a whole does not matter.
func TestExampleGRPC(t *testing.T) {
	t.Parallel()
	const service = "orders.v1.Orders"
	calls := make(chan string, 100)
	one, two := newEchoBackend(t, service, calls), newEchoBackend(t, service, calls)
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	c := newCaddy(t)
	path := filepath.Join(c.dir, "Caddyfile")
	text := "{\n\tadmin " + c.admin + "\n\tdefault_bind 127.0.0.1\n\tauto_https disable_redirects\n\tlocal_certs\n\tskip_install_trust\n}\n" +
		exampleText(t, "grpc", "10.0.0.11:50051", one.addr, "10.0.0.12:50051", two.addr, "grpc.example.com {", "localhost:"+port+" {")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, "run", "--config", path)
	c.waitStatus(t, "up", one.addr, two.addr)

	root := filepath.Join(c.dir, "data", "caddy", "pki", "authorities", "local", "root.crt")
	roots := x509.NewCertPool()
	eventually(t, "Caddy has a certificate", func() bool {
		pem, err := os.ReadFile(root)
		return err == nil && roots.AppendCertsFromPEM(pem)
	})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "localhost")),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	share := func(first, second int) {
		t.Helper()
		got := make(map[string]int)
		for range first + second {
			var from peer.Peer
			back := new(wrapperspb.BytesValue)
			err := conn.Invoke(ctx, "/"+service+"/Place", wrapperspb.Bytes([]byte("order")), back, grpc.Peer(&from))
			if err != nil || string(back.Value) != "order" || from.Addr.String() != addr {
				t.Fatalf("got %q from %v, %v", back.Value, from.Addr, err)
			}
			got[<-calls]++
		}
		if got[one.addr] != first || got[two.addr] != second {
			t.Errorf("calls %v, want %d and %d", got, first, second)
		}
	}
	share(4, 4)
	two.serving(service, false)
	c.checkNow(t, "down", two.addr)
	share(4, 0)
	one.serving("", false)
	c.act(t, "check?upstream="+one.addr)
	two.serving(service, true)
	c.checkNow(t, "up", two.addr)
	share(4, 4)
}
