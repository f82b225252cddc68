package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// steerings returns the subcommands that do something to an upstream. They
// have the names of the actions of the API.
func steerings() []*cobra.Command {
	return []*cobra.Command{
		steering("drain", true, "Keeps new requests away from an upstream", `
Keeps new requests away from an upstream. Those under way go on, and so do
health checks.

With --for, the upstream is ready again after that time, by itself. With
--wait, the command returns when no request is under way any more: then the
upstream can be stopped. It fails if the upstream vanishes from the config or
is no longer drained, be it that --for is over. Interrupting the command ends
the waiting, not the draining.`),
		steering("maint", true, "Keeps requests and health checks away from an upstream", `
Keeps requests and health checks away from an upstream. Requests that still
wait for it are retried elsewhere, if they may be; the others go on. When the
upstream is ready again, it is checked at once, and gets requests if it passes.

With --for, the upstream is ready again after that time, by itself. With
--wait, the command returns when no request is under way any more. It fails if
the upstream vanishes from the config or is no longer in maintenance, be it
that --for is over. Interrupting the command ends the waiting, not the
maintenance.`),
		steering("ready", false, "Ends the draining or the maintenance of an upstream", `
Ends the draining or the maintenance of an upstream. It gets requests if it is
up; after maintenance, a health check has to pass first.`),
		steering("readmit", false, "Ends the retirement of an upstream", `
Ends the retirement of an upstream: it is checked at once, and gets requests if
it passes. Upstreams that are not retired stay as they are.`),
		steering("check", false, "Checks an upstream at once", `
Checks an upstream at once, and does not wait for the result. A check that
fails does not count if the upstream is down already, and then it does not
move the next one.`),
	}
}

// steering returns a subcommand. Modes can be given for a time, and be waited
// for.
func steering(action string, mode bool, short, long string) *cobra.Command {
	var (
		at    endpoint
		lease = span{positive: true}
		wait  bool
	)
	usage := " <address> [--pool <name>]"
	if mode {
		usage += " [--for <duration>] [--wait]"
	}
	cmd := &cobra.Command{
		Use:   action + usage + " [--address <interface>] [--config <path> [--adapter <name>]]",
		Short: short,
		Long: strings.TrimSpace(long) + `

An upstream in several pools is meant in all of them, unless --pool is given.

The exit code is 0 if it is done, and 1 if not: because there is no such
upstream, or the endpoint cannot be reached.`,
	}
	at.flags(cmd)
	if mode {
		cmd.Flags().Var(&lease, "for", "End it by itself after this time, such as 10m")
		cmd.Flags().BoolVar(&wait, "wait", false, "Wait until no request is under way")
	}
	takesAddress(cmd, &at)
	run(cmd, func(args []string) error {
		at.upstream = args[0]
		query := at.query()
		if lease.value > 0 {
			query.Set("for", lease.String())
		}
		rows, err := at.do(action, query)
		if err != nil {
			return err
		}
		if wait {
			return awaitIdle(cmd.Context(), &at, rows, action, cmd.OutOrStdout())
		}
		return printTable(rows, cmd.OutOrStdout())
	})
	return cmd
}

// takesAddress makes cmd take the address of an upstream, and complete it.
func takesAddress(cmd *cobra.Command, at *endpoint) {
	cmd.Args = cobra.MatchAll(cobra.ExactArgs(1), notEmpty)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return at.known(func(u admin.Upstream) string { return u.Address }), cobra.ShellCompDirectiveNoFileComp
	}
}
