//go:build !linux

// Command bench measures this load balancer beside others. It needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux, for its network namespaces")
	os.Exit(1)
}
