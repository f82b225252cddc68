package upstreams

import "fmt"

// What a pool does with a request when nothing is in rotation.
const (
	// AnswerUnavailable answers 503 with a Retry-After header.
	AnswerUnavailable = "503"
	// TryAll tries all upstreams in turn, whatever their status, but for those
	// in maintenance.
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

	// The upstream's share of the turns: one of weight 3 gets three times as
	// many requests as one of weight 1. From 1 to 256; for the policies
	// round_robin and smooth_round_robin only. Default: 1.
	Weight int `json:"weight,omitempty"`

	// Whether the upstream gets requests only while no other upstream is in
	// rotation, or when a request has tried all others. Default: false.
	Backup bool `json:"backup,omitempty"`
}

// MaxWeight is the highest weight of an upstream.
const MaxWeight = 256

// Validate reports the first bad value, by the name of its JSON field.
func (c Config) Validate() error {
	if c.MaxRequests < 0 {
		return fmt.Errorf("max_requests: must not be negative: %d", c.MaxRequests)
	}
	if c.Weight < 0 || c.Weight > MaxWeight {
		return fmt.Errorf("weight: must be from 1 to %d: %d", MaxWeight, c.Weight)
	}
	return nil
}
