package upstreams

import "fmt"

// What a pool does with a request when nothing is in rotation.
const (
	// AnswerUnavailable answers 503 with a Retry-After header.
	AnswerUnavailable = "503"
	// TryAll tries all upstreams in turn, whatever their status.
	TryAll = "try_all"
)

// Config configures one upstream.
type Config struct {
	// The network address to dial, one socket precisely: host:port, or
	// unix//path. It may contain placeholders; with those of the request,
	// the upstream cannot be checked and is taken as up.
	Dial string `json:"dial,omitempty"`

	// How many requests may be under way to this upstream at a time. While
	// it has that many it is skipped, which counts as no failure. Default:
	// the unhealthy_request_count of the passive health checks, or no limit.
	MaxRequests int `json:"max_requests,omitempty"`

	// The upstream's share of the turns. Default: 1.
	Weight int `json:"weight,omitempty"`

	// Whether the upstream gets requests only while no other is in rotation.
	Backup bool `json:"backup,omitempty"`
}

// Validate reports the first bad value, by the name of its JSON field.
func (c Config) Validate() error {
	if c.MaxRequests < 0 {
		return fmt.Errorf("max_requests: must not be negative: %d", c.MaxRequests)
	}
	return nil
}
