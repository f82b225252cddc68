package upstreams

import (
	"encoding/json"
	"errors"
	"fmt"
)

// CheckWeight reports why upstreams cannot have weights beside a selection
// policy, given as it is in a JSON config; nil if they can.
func CheckWeight(policy json.RawMessage) error {
	name, weights := describe(policy)
	if len(weights) > 0 {
		return errors.New("must not stand beside a selection policy with weights of its own")
	}
	return checkRoundRobin(name)
}

// CheckSlowStart reports why there cannot be a slow start beside a selection
// policy, given as it is in a JSON config; nil if there can.
func CheckSlowStart(policy json.RawMessage) error {
	name, _ := describe(policy)
	return checkRoundRobin(name)
}

// describe returns the name of a policy, and its weights by position.
func describe(policy json.RawMessage) (name string, weights []int) {
	var config struct {
		Policy  string `json:"policy"`
		Weights []int  `json:"weights"`
	}
	_ = json.Unmarshal(policy, &config) // Caddy reports what is wrong with it
	return config.Policy, config.Weights
}

// checkRoundRobin refuses policies that do not go by the upstreams' weights.
func checkRoundRobin(policy string) error {
	switch policy {
	case "", "round_robin", "smooth_round_robin":
		return nil
	}
	return fmt.Errorf("must stand beside the selection policy round_robin or smooth_round_robin, not '%s'", policy)
}
