// Package metrics shows the upstreams of all load_balance handlers to
// Prometheus, where Caddy shows its own metrics.
//
// Nothing is kept here: a scrape reads what the running config's pools know
// and have counted. So each pool and upstream has its series once, also while
// an older config is still alive, and an upstream that is no longer there has
// none.
package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register adds the metrics to the registry of a config. It may be called for
// each of its handlers.
func Register(registry *prometheus.Registry) error {
	err := registry.Register(poolCollector{})
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if _, ours := already.ExistingCollector.(poolCollector); ours {
			return nil
		}
	}
	if err == nil {
		err = registry.Register(upstreamCollector{})
	}
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}
