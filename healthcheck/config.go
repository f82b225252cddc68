package healthcheck

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// The protocols that a check can speak.
const (
	// ProtocolHTTP sends a request over the pool's own transport.
	ProtocolHTTP = "http"
	// ProtocolTCP opens a connection and closes it.
	ProtocolTCP = "tcp"
	// ProtocolGRPC asks the gRPC health service.
	ProtocolGRPC = "grpc"
	// ProtocolNone checks nothing: every upstream is up at once.
	ProtocolNone = "none"
)

// Never is the value of max_failures and readmit_after that switches them off.
const Never = -1

// Defaults of the options below.
const (
	DefaultInterval     = 5 * time.Second
	DefaultIncrement    = 5 * time.Second
	DefaultMaxInterval  = 60 * time.Second
	DefaultTimeout      = 5 * time.Second
	DefaultJitter       = 10
	DefaultMaxFailures  = 10
	DefaultReadmitAfter = 5 * time.Minute
)

// Config configures active health checks. It has every option of
// reverse_proxy's active health checks, with the same names and meaning, and
// those below. Checks are on by default: without any option, a check is a
// GET request for / and any HTTP response passes it. As soon as uri, path,
// port, expect_status or expect_body is given, only a 2xx response passes it,
// or one with the expected status. The interval defaults to 5s.
type Config struct {
	reverseproxy.ActiveHealthChecks

	// What a check speaks: `http` sends a request over the transport of the
	// proxy, `tcp` opens a connection, `grpc` asks the upstream's gRPC health
	// service (grpc.health.v1), and only SERVING passes, `none` switches
	// checks off, so that every upstream is taken as up. Default: `http`, or
	// `tcp` with the FastCGI transport.
	//
	// `tcp` and `grpc` connect as the http transport of the proxy does: with
	// its TLS, PROXY protocol, resolver, local address and timeouts, but
	// never through a forward proxy. Without TLS, `grpc` is HTTP/2 in
	// cleartext (h2c). Every check has a connection of its own. Of the
	// options about requests and responses, `grpc` heeds the headers, which
	// it sends as metadata, and `tcp` none.
	Protocol string `json:"protocol,omitempty"`

	// The name of the service whose health `grpc` asks for. Default: none,
	// which asks for the health of the server as a whole. An error with any
	// other protocol.
	Service string `json:"service,omitempty"`

	// How much longer the delay to the next check becomes with every failed
	// check in a row, counted from the one that took the upstream down: the
	// delay after the k-th is interval + k * increment. 0 keeps it constant.
	// Default: 5s.
	Increment *caddy.Duration `json:"increment,omitempty"`

	// The longest delay to the next check of an upstream that is down. It
	// must not be below the interval. Default: 60s, or the interval if that
	// is longer.
	MaxInterval caddy.Duration `json:"max_interval,omitempty"`

	// By how many percent every delay but the first is spread, both ways, so
	// that checks do not come in bursts. From 0 to 100. Default: 10.
	Jitter *int `json:"jitter,omitempty"`

	// After how many failed checks in a row an upstream is retired: not
	// checked and not used any more, until it is readmitted. -1 means never.
	// Default: 10.
	MaxFailures int `json:"max_failures,omitempty"`

	// After how long a retired upstream is readmitted: checked once, and
	// retired again if it fails. -1 means never. Default: 5m.
	ReadmitAfter caddy.Duration `json:"readmit_after,omitempty"`
}

// Validate reports the first bad value, by the name of its JSON field.
func (c *Config) Validate() error {
	switch c.Protocol {
	case "", ProtocolHTTP, ProtocolTCP, ProtocolGRPC, ProtocolNone:
	default:
		return fmt.Errorf("protocol: unknown protocol '%s', must be http, tcp, grpc or none", c.Protocol)
	}
	if c.Service != "" && c.Protocol != ProtocolGRPC {
		return fmt.Errorf("service: '%s' has no meaning unless the protocol is grpc", c.Service)
	}
	for _, d := range []struct {
		field string
		value caddy.Duration
	}{
		{"interval", c.Interval},
		{"timeout", c.Timeout},
		{"max_interval", c.MaxInterval},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s: must be positive, not %s", d.field, time.Duration(d.value))
		}
	}
	if c.Increment != nil && *c.Increment < 0 {
		return fmt.Errorf("increment: must not be negative: %s", time.Duration(*c.Increment))
	}
	if c.MaxInterval > 0 && time.Duration(c.MaxInterval) < c.interval() {
		return fmt.Errorf("max_interval: %s is below the interval, %s", time.Duration(c.MaxInterval), c.interval())
	}
	if c.Jitter != nil && (*c.Jitter < 0 || *c.Jitter > 100) {
		return fmt.Errorf("jitter: must be from 0 to 100 percent, not %d", *c.Jitter)
	}
	if c.MaxFailures < Never {
		return fmt.Errorf("max_failures: must be positive, or -1 for never, not %d", c.MaxFailures)
	}
	if c.ReadmitAfter < Never {
		return fmt.Errorf("readmit_after: must be positive, or -1 for never, not %s", time.Duration(c.ReadmitAfter))
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("port: must be from 1 to 65535, not %d", c.Port)
	}
	if c.MaxSize < 0 {
		return fmt.Errorf("max_size: must not be negative: %d", c.MaxSize)
	}
	if _, err := regexp.Compile(c.ExpectBody); err != nil {
		return fmt.Errorf("expect_body: %w", err)
	}
	return nil
}

// Settings returns the thresholds and delays, defaults filled in.
func (c *Config) Settings() Settings {
	set := Settings{
		Interval:     c.interval(),
		Increment:    DefaultIncrement,
		MaxInterval:  time.Duration(c.MaxInterval),
		Passes:       max(c.Passes, 1),
		Fails:        max(c.Fails, 1),
		MaxFailures:  c.MaxFailures,
		ReadmitAfter: time.Duration(c.ReadmitAfter),
		Jitter:       DefaultJitter / 100.0,
	}
	if c.Increment != nil {
		set.Increment = time.Duration(*c.Increment)
	}
	if set.MaxInterval == 0 {
		set.MaxInterval = max(DefaultMaxInterval, set.Interval)
	}
	if c.Jitter != nil {
		set.Jitter = float64(*c.Jitter) / 100
	}
	switch set.MaxFailures {
	case 0:
		set.MaxFailures = DefaultMaxFailures
	case Never:
		set.MaxFailures = 0
	}
	switch set.ReadmitAfter {
	case 0:
		set.ReadmitAfter = DefaultReadmitAfter
	case Never:
		set.ReadmitAfter = 0
	}
	return set
}

// Identity returns what a result of the check depends on, as a comparable
// text: everything but thresholds, delays and the timeout.
func (c *Config) Identity() string {
	id := *c
	id.Interval, id.Timeout, id.Passes, id.Fails = 0, 0, 0, 0
	id.Increment, id.MaxInterval, id.Jitter = nil, 0, nil
	id.MaxFailures, id.ReadmitAfter = 0, 0
	text, err := json.Marshal(id)
	if err != nil { // not possible: plain fields only
		return err.Error()
	}
	return string(text)
}

func (c *Config) interval() time.Duration {
	if c.Interval == 0 {
		return DefaultInterval
	}
	return time.Duration(c.Interval)
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return time.Duration(c.Timeout)
}

// Idle reports whether the config says something about requests or responses
// that the protocol does not heed.
func (c *Config) Idle() bool {
	switch c.Protocol {
	case ProtocolHTTP:
		return false
	case ProtocolGRPC:
	default:
		if len(c.Headers) > 0 {
			return true
		}
	}
	return c.URI != "" || c.Path != "" || //nolint:staticcheck // deprecated by Caddy, but still an option
		c.Method != "" || c.Body != "" || c.FollowRedirects || c.MaxSize > 0 || c.ExpectStatus != 0 || c.ExpectBody != ""
}

// anyResponse reports whether any HTTP response passes a check.
func (c *Config) anyResponse() bool {
	return c.URI == "" && c.Path == "" && //nolint:staticcheck // deprecated by Caddy, but still an option
		c.Port == 0 && c.ExpectStatus == 0 && c.ExpectBody == ""
}
