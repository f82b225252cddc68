// Command caddy is Caddy with its standard modules and load_balance compiled in.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-loadbalance/caddy-loadbalance"
)

func main() {
	caddycmd.Main()
}
