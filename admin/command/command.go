// Package command is the command `caddy upstreams`, which shows and steers the
// upstreams of load_balance in a running Caddy, over its admin API.
//
//	command.go    the command, its subcommands and their help
//	endpoint.go   the admin endpoint: where it is, asking it
//	list.go       the list of upstreams, table.go draws it
//	watch.go      the list, live
//	steer.go      operator modes, readmission and checks, wait.go waits for the end of a drain
//	explain.go    what happened to an upstream, and what comes next
//	ladder.go     the schedule that options lead to, asks nobody
//	text.go       durations, times, and text that must not steer the terminal
package command

import (
	"errors"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "upstreams",
		Usage: "[--pool <name>] [--upstream <address>] [--json | --watch] [--address <interface>] [--config <path> [--adapter <name>]]",
		Short: "Shows and steers the upstreams of load_balance",
		Long: `
Shows the upstreams of all load_balance handlers in the running Caddy instance,
one in a line:

	POOL      the name of the pool
	ADDRESS   the address, as in the config
	STATUS    what checks say: unknown, up, down or retired
	ROTATION  'in' if the upstream gets new requests, else 'out'
	MODE      the operator mode: ready, drain or maint
	WEIGHT    the share of the turns; 'backup' if it only serves when no
	          other can
	FAILS     failed checks in a row, and how many retire the upstream
	NEXT      the time to the next check, or to the readmission of a retired
	          upstream
	ACTIVE    requests under way
	REQUESTS  requests so far, retries included
	ERRORS    those that got no response
	REASON    why it is out

A narrow terminal is not shown all of them, and long reasons are cut. Scripts
should use --json, which prints what the admin API answers.

With --watch, the list is live: redrawn on a terminal, otherwise a line for
every change, until it is interrupted.

Since the admin endpoint is configurable, the endpoint configuration is loaded
from the --address flag if specified; otherwise it is loaded from the given
config file; otherwise the default is assumed.

The exit code is 0 if all went well, also when --watch is interrupted, and 1 if
the endpoint cannot be reached or refuses, if there is no such upstream or
pool, or if flags or arguments are wrong.
`,
		CobraFunc: func(cmd *cobra.Command) {
			list(cmd)
			cmd.AddCommand(steerings()...)
			cmd.AddCommand(explain(), ladder())
		},
	})
}

// run sets what cmd does. Its errors may have text of others.
func run(cmd *cobra.Command, do func(args []string) error) {
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := do(args); err != nil {
			return errors.New(escape(err.Error()))
		}
		return nil
	}
}
