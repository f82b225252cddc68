package healthcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// UserAgent is what checks call themselves unless a header is configured.
const UserAgent = "caddy-loadbalance health check"

// errTimeout is the cancel cause of checks that take too long.
var errTimeout = fmt.Errorf("no result within health_timeout: %w", context.DeadlineExceeded)

// Prober makes the probes of a pool.
type Prober struct {
	cfg       Config
	ask       func(p *Prober, ctx context.Context, address string) Report
	transport http.RoundTripper
	client    *http.Client
	uri       url.URL
	body      *regexp.Regexp
	// brief is the client for more upstreams than keepMost, nil if there are
	// not so many.
	brief atomic.Pointer[http.Client]
}

// NewProber returns the prober of a valid config. The HTTP probes of its
// targets travel over transport, the others connect as it does.
func NewProber(cfg Config, transport http.RoundTripper) (*Prober, error) {
	p := &Prober{cfg: cfg, transport: transport}
	p.cfg.Headers = make(http.Header) // whose names JSON may spell differently
	for name, values := range cfg.Headers {
		for _, value := range values {
			p.cfg.Headers.Add(name, value)
		}
	}
	switch cfg.Protocol {
	case ProtocolNone:
		return p, nil
	case ProtocolTCP:
		p.ask = (*Prober).askTCP
		return p, nil
	case ProtocolGRPC:
		p.ask = (*Prober).askGRPC
		return p, nil
	}
	p.ask = (*Prober).askHTTP
	p.client = newClient(transport, cfg.FollowRedirects)
	uri := cfg.URI
	if uri == "" {
		p.uri.Path = cfg.Path //nolint:staticcheck // deprecated by Caddy, but still an option
	} else {
		parsed, err := url.Parse(uri)
		if err != nil {
			return nil, fmt.Errorf("uri: %w", err)
		}
		p.uri = url.URL{Path: parsed.Path, RawPath: parsed.RawPath, RawQuery: parsed.RawQuery}
	}
	if p.uri.Path == "" || p.uri.Path[0] != '/' {
		p.uri.Path, p.uri.RawPath = "/"+p.uri.Path, ""
	}
	if cfg.ExpectBody != "" {
		var err error
		if p.body, err = regexp.Compile(cfg.ExpectBody); err != nil {
			return nil, fmt.Errorf("expect_body: %w", err)
		}
	}
	return p, nil
}

// Checks reports whether there are checks at all.
func (p *Prober) Checks() bool { return p.ask != nil }

// Timeout returns how long a check takes at most.
func (p *Prober) Timeout() time.Duration { return p.cfg.timeout() }

// Probe returns the probe of an upstream, or nil if it is not to be checked.
// Whatever goes wrong in the probe, a panic included, is a failed check.
func (p *Prober) Probe(address string) Probe {
	if p.ask == nil {
		return nil
	}
	return func(ctx context.Context) (report Report) {
		ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.timeout(), errTimeout)
		defer cancel()
		start := time.Now()
		defer func() {
			if broken := recover(); broken != nil {
				report = Report{Reason: "panic", Detail: fmt.Sprintf("%v\n%s", broken, debug.Stack())}
			}
			report.Time = start
			if report.Duration == 0 {
				report.Duration = time.Since(start)
			}
		}()
		return p.ask(p, ctx, address)
	}
}

// Checkable reports whether address can be checked: whether it has no
// placeholders but those whose values do not depend on a request.
func Checkable(address string) bool {
	return !dependsOnRequest(address)
}

// place is where a check of an upstream goes.
type place struct {
	dial reverseproxy.DialInfo
	// upstream is the upstream's own address, placeholders replaced.
	upstream string
	// host is host:port for URL and Host header.
	host string
	// repl replaces the placeholders of the check.
	repl *caddy.Replacer
}

// locate finds out where a check of an upstream goes: to the upstream itself,
// to the configured port of its host, or to the configured other place. A
// unix socket has no ports: the check goes to the socket itself.
func (p *Prober) locate(address string) (place, error) {
	repl := caddy.NewReplacer()
	upstream, err := repl.ReplaceOrErr(address, true, true)
	if err != nil {
		return place{}, err
	}
	target := upstream
	if p.cfg.Upstream != "" {
		target = repl.ReplaceAll(p.cfg.Upstream, "")
	}
	addr, err := caddy.ParseNetworkAddress(target)
	if err != nil {
		return place{}, err
	}
	socket := addr.IsUnixNetwork() || addr.IsFdNetwork()
	if p.cfg.Port != 0 && p.cfg.Upstream == "" && !socket {
		addr.StartPort, addr.EndPort = uint(p.cfg.Port), uint(p.cfg.Port)
	}
	if addr.PortRangeSize() != 1 {
		return place{}, fmt.Errorf("%s is not precisely one socket", target)
	}
	at := place{
		dial: reverseproxy.DialInfo{
			Upstream: &reverseproxy.Upstream{Dial: address},
			Network:  addr.Network,
			Address:  addr.JoinHostPort(0),
			Host:     addr.Host,
			Port:     strconv.Itoa(int(addr.StartPort)),
		},
		upstream: upstream,
		host:     addr.JoinHostPort(0),
		repl:     repl,
	}
	repl.Set("http.reverse_proxy.active.target_upstream", upstream)
	if socket {
		at.host = "localhost"
	}
	return at, nil
}

// failed returns the report of a check that came to no response.
func failed(err error) Report {
	return Report{Reason: Reason(err), Detail: err.Error(), Void: outOfFiles(err)}
}

// answered returns the report of a check to which the backend gave an answer.
// Without a reason, the answer passes the check.
func answered(reason, detail string) Report {
	return Report{OK: reason == "", Answered: true, Reason: reason, Detail: detail}
}

// headers returns the configured headers, and the Host among them, if any.
// Their names and values may have placeholders,
// {http.reverse_proxy.active.target_upstream} among them.
func (p *Prober) headers(repl *caddy.Replacer) (host string, header http.Header) {
	header = make(http.Header)
	for name, values := range p.cfg.Headers {
		name = repl.ReplaceAll(name, "")
		if name == "Host" {
			host = repl.ReplaceAll(values[0], "")
			continue
		}
		for _, value := range values {
			header.Add(name, repl.ReplaceKnown(value, ""))
		}
	}
	if _, given := header["User-Agent"]; !given {
		header.Set("User-Agent", UserAgent)
	}
	return host, header
}

// CheckableTransport reports whether checks of that protocol can be made with
// a transport of that config: whether it has no placeholders but those whose
// values do not depend on a request. Of the transport, only HTTP checks use
// more than what it says about TLS.
func CheckableTransport(config json.RawMessage, protocol string) bool {
	if protocol == ProtocolHTTP {
		return !DependsOnRequest(config)
	}
	var transport struct {
		TLS json.RawMessage `json:"tls"`
	}
	return json.Unmarshal(config, &transport) != nil || !DependsOnRequest(transport.TLS)
}

// DependsOnRequest reports whether a module of that config has placeholders
// whose values depend on a request.
func DependsOnRequest(config json.RawMessage) bool {
	var value any
	return json.Unmarshal(config, &value) == nil && dependsOnRequest(value)
}

func dependsOnRequest(value any) bool {
	switch v := value.(type) {
	case string:
		_, err := caddy.NewReplacer().ReplaceOrErr(v, false, true)
		return err != nil // an unknown placeholder
	case []any:
		return slices.ContainsFunc(v, dependsOnRequest)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), dependsOnRequest)
	}
	return false
}
