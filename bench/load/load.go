//go:build linux

// Package load sends requests at a steady pace, whether or not earlier ones
// have been answered, and tells of every one what its sender saw. Unlike Go's
// client it never sends a request again on its own, but for a connection that
// was reset before it carried anything.
package load

import (
	"context"
	"sync"
	"time"
)

// Config is what is sent.
type Config struct {
	// Address is where to, Method what kind, Rate how many a second.
	Address string
	Method  string
	Rate    int
	// OneEach gives every request a connection of its own: one that is kept
	// may be closed by the server in the moment in which it is used again,
	// and what must not be sent again is lost then, whoever the server is.
	OneEach bool
	// Timeout is how long each may take.
	Timeout time.Duration
	// Header is the response header that says who answered.
	Header string
	// Size is how long the bodies of responses have to be, in bytes.
	Size int
	// Done, if set, is told of every request that is over.
	Done func(Sample)
}

// Sample is what came of one request.
type Sample struct {
	// Start is when it was due, since the load began. Took counts from there.
	Start, Took time.Duration
	// Backend is who answered, Error what went wrong, if anything did.
	Backend, Error string
	// Redialed says that a connection was reset before it had carried
	// anything, and that another was opened.
	Redialed bool
}

// Run sends requests until the context ends, and returns, when all have been
// answered or have timed out, what came of them, in order.
func Run(ctx context.Context, begin time.Time, cfg Config) []Sample {
	var (
		c       = &client{Config: cfg}
		wait    sync.WaitGroup
		samples []*Sample
	)
	pace := time.Second / time.Duration(cfg.Rate)
	first := time.Since(begin)
	for i := 0; ; i++ {
		due := first + time.Duration(i)*pace
		select {
		case <-time.After(due - time.Since(begin)):
		case <-ctx.Done():
			wait.Wait()
			c.close()
			return values(samples)
		}
		sample := &Sample{Start: due}
		samples = append(samples, sample)
		wait.Go(func() {
			c.send(begin.Add(due), sample)
			sample.Took = time.Since(begin) - due
			if cfg.Done != nil {
				cfg.Done(*sample)
			}
		})
	}
}

func values(samples []*Sample) []Sample {
	all := make([]Sample, len(samples))
	for i, s := range samples {
		all[i] = *s
	}
	return all
}
