//go:build !race

package loadbalance

const raceEnabled = false
