package healthcheck

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Limits on what is read of an answer, which is a few bytes.
const (
	maxMessage = 4 << 10
	maxHeaders = 64 << 10
)

// alpnHTTP2 is what TLS calls HTTP/2.
const alpnHTTP2 = "h2"

// errSpent ends the library's attempts to connect again.
var errSpent = errors.New("a check has one connection only")

// askGRPC asks the gRPC health service and judges its answer. The connection
// is dialed here, not by the library, whose errors are mere text.
func (p *Prober) askGRPC(ctx context.Context, address string) Report {
	at, err := p.locate(address)
	if err != nil {
		return failed(err)
	}
	conn, err := p.dial(ctx, at, alpnHTTP2)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	secure, isTLS := conn.(*tls.Conn)
	if isTLS && secure.ConnectionState().NegotiatedProtocol != alpnHTTP2 {
		return Report{Reason: notGRPC, Detail: "the TLS handshake came to no agreement on HTTP/2"}
	}
	host, header := p.headers(at.repl)
	watched := &watchedConn{Conn: conn}
	client, err := newGRPC(watched, isTLS, cmp.Or(host, at.host), header.Get("User-Agent"))
	if err != nil {
		return failed(err)
	}
	defer client.Close()
	header.Del("User-Agent") // which is the client's
	report := p.callGRPC(ctx, client, watched, header)
	if !report.OK {
		_ = conn.Close() // or else closing the client may wait to say goodbye
	}
	return report
}

// newGRPC returns a client on an established connection, which asks nobody
// where to connect to, how, and how often.
func newGRPC(conn net.Conn, isTLS bool, authority, userAgent string) (*grpc.ClientConn, error) {
	var dialed atomic.Bool
	creds := insecure.NewCredentials()
	if isTLS {
		creds = handshaken{creds}
	}
	return grpc.NewClient("passthrough:///upstream",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if dialed.Swap(true) {
				return nil, errSpent
			}
			return conn, nil
		}),
		grpc.WithTransportCredentials(creds),
		grpc.WithAuthority(authority),
		grpc.WithUserAgent(userAgent),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStaticConnWindowSize(64<<10), // does not grow
		grpc.WithReadBufferSize(4<<10),
		grpc.WithWriteBufferSize(4<<10),
	)
}

// callGRPC asks for the health of the service.
func (p *Prober) callGRPC(ctx context.Context, client *grpc.ClientConn, conn *watchedConn, header http.Header) Report {
	sent := make(metadata.MD)
	for name, values := range header {
		sent.Append(name, values...)
	}
	var got, trailer metadata.MD
	resp, err := health.NewHealthClient(client).Check(metadata.NewOutgoingContext(ctx, sent),
		&health.HealthCheckRequest{Service: p.cfg.Service}, grpc.Header(&got), grpc.Trailer(&trailer))
	broken := conn.broken()
	switch {
	case err == nil:
		return judgeGRPC(resp.GetStatus())
	case over(ctx):
		return failed(context.Cause(ctx))
	case len(trailer) > 0, len(got) > 0 && broken == nil:
		return answered(codeReason(status.Code(err)), status.Convert(err).Message())
	case broken != nil:
		return failed(broken)
	case strings.Contains(err.Error(), "unexpected HTTP status code received"):
		return answered(notGRPC, status.Convert(err).Message())
	case strings.Contains(err.Error(), "server preface"), strings.Contains(err.Error(), "initial http2 frame"):
		return Report{Reason: notGRPC, Detail: err.Error()}
	}
	return failed(err)
}

// over reports whether the time for a check is over. The backend is told the
// deadline, too, and may act on it before this side's timer does.
func over(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// notGRPC is the reason if something else answers than a gRPC server.
const notGRPC = "not grpc"

// judgeGRPC decides whether a health status passes the check.
func judgeGRPC(s health.HealthCheckResponse_ServingStatus) Report {
	switch s {
	case health.HealthCheckResponse_SERVING:
		return answered("", "")
	case health.HealthCheckResponse_NOT_SERVING:
		return answered("not serving", "")
	case health.HealthCheckResponse_SERVICE_UNKNOWN:
		return answered("unknown service", "")
	}
	return answered("unknown health", "health status "+s.String())
}

// codeReason says in a few words what a gRPC status means.
func codeReason(code codes.Code) string {
	switch code {
	case codes.NotFound:
		return "unknown service"
	case codes.Unimplemented:
		return "unimplemented"
	}
	return "status " + code.String()
}

// handshaken are the credentials of a connection that has its TLS handshake
// behind it.
type handshaken struct {
	credentials.TransportCredentials
}

// Info implements credentials.TransportCredentials. It makes the scheme of
// requests https.
func (handshaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (h handshaken) Clone() credentials.TransportCredentials { return h }

// watchedConn remembers the error that broke the connection, unless this side
// closed it. What reading says goes first: there a backend says why it hung up.
type watchedConn struct {
	net.Conn
	read, written atomic.Pointer[error]
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	note(&c.read, err)
	return n, err
}

func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	note(&c.written, err)
	return n, err
}

func note(first *atomic.Pointer[error], err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		first.CompareAndSwap(nil, &err)
	}
}

// broken returns what broke the connection, nil if nothing did.
func (c *watchedConn) broken() error {
	if err := cmp.Or(c.read.Load(), c.written.Load()); err != nil {
		return *err
	}
	return nil
}
