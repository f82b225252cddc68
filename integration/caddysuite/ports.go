package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// freePort returns a port that nothing listens on at the moment.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// fixedPorts are those that the suite listens on.
var fixedPorts = []int{1234, 2020, 2021, 2022, 2023, 9080, 9443, 10443, 18080, 54321}

// checkPorts fails if another process has one of the fixed ports. Caddy would
// share the port with it, and half of the requests would go astray.
func checkPorts() error {
	var used []string
	for _, port := range fixedPorts {
		ln, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			used = append(used, strconv.Itoa(port))
			continue
		}
		ln.Close()
	}
	if len(used) > 0 {
		return fmt.Errorf("the suite needs ports that are in use: %s", strings.Join(used, ", "))
	}
	return nil
}
