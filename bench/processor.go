//go:build linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what a process has used so far, with all its threads.
func processorTime(pid int) (time.Duration, error) {
	clock := int32(^pid)<<3 | 2 // see clock_getcpuclockid(3)
	var t unix.Timespec
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), err
}
