package main

// The files that a copy of the suite gets in addition to Caddy's.
const (
	// setupSource tells Caddy's test helper the copy's admin port. Without a
	// PATH, Caddy finds no tool to add its root certificate to the trust store
	// of the machine with, and merely logs that.
	setupSource = `package integration

import (
	"os"

	"github.com/caddyserver/caddy/v2/caddytest"
)

func init() {
	caddytest.Default.AdminPort = %d
	os.Setenv("PATH", "")
}
`

	// pluginSource compiles the plugin in.
	pluginSource = `package integration

import _ %q
`

	// warmUpSource has Caddy issue the certificates that tests of the suite
	// expect to find in its storage: they send their request as soon as the
	// config is loaded, which is before a new certificate has been issued.
	warmUpSource = `package integration

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddytest"
)

func TestWarmUp(t *testing.T) {
	caddytest.NewTester(t).InitServer(` + "`" + `{
		admin localhost:%d
		http_port 9080
		https_port 9443
		skip_install_trust
		local_certs
	}
	localhost example.com {
		respond ok
	}` + "`" + `, "caddyfile")
	for _, name := range []string{"localhost", "example.com"} {
		deadline := time.Now().Add(20 * time.Second)
		for {
			conn, err := tls.Dial("tcp", "127.0.0.1:9443", &tls.Config{ServerName: name, InsecureSkipVerify: true})
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
`
)

// warmUpTest matches the test in warmUpSource.
const warmUpTest = "^TestWarmUp$"
