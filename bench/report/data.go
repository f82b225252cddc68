// Package report keeps what was measured, in files, and makes RESULTS.md and
// its plots from them.
package report

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Faults is what clients saw while backends failed.
type Faults struct {
	About     Machine
	Took      string
	Lanes     int
	Repeat    int
	Scenarios []Scenario
	Peers     []Peer
	Runs      []FaultRun
	// Anew are regular expressions of what has been measured again since.
	Anew []string `json:",omitempty"`
}

// Scenario is something that goes wrong.
type Scenario struct{ Name, What string }

// Peer is a load balancer with a configuration, which is a template.
type Peer struct{ Name, Note, Config string }

// FaultRun is one scenario with one peer, once.
type FaultRun struct {
	Scenario, Peer string
	// Reloads says that the peer was reloaded meanwhile.
	Reloads bool
	Outcome
}

// Outcome is what came of a scenario. Times are in milliseconds; those that say
// nothing in a scenario, or never came, are negative.
type Outcome struct {
	Get, Post Requests
	// BadRequests is how many requests were sent to a backend while it was not
	// well, Probes how many health checks while it was dead.
	BadRequests, Probes int
	// Detect is when no request went there any more, for the first time.
	// FullShare is how long it took, from the moment that all were well again,
	// until all had their share of the requests.
	Detect, FullShare float64
}

// Requests is what clients saw.
type Requests struct {
	Sent, Errors, Redialed int
	P50, P99, Max          float64
	// Kinds are the errors by their texts.
	Kinds map[string]int
}

// Save writes the figures of an experiment.
func Save(folder, name string, data any) error {
	text, err := json.MarshalIndent(data, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file(folder, name), append(text, '\n'), 0o644)
}

// Load reads the figures of an experiment that Save has written.
func Load(folder, name string, data any) error {
	text, err := os.ReadFile(file(folder, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, data)
}

func file(folder, name string) string { return filepath.Join(folder, "data", name+".json") }
