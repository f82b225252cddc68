package command

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// ladder returns the subcommand that computes a schedule.
func ladder() *cobra.Command {
	var (
		interval    = span{value: healthcheck.DefaultInterval, positive: true}
		increment   = span{value: healthcheck.DefaultIncrement}
		maxInterval = span{positive: true}
		maxFailures = count{value: healthcheck.DefaultMaxFailures, never: true}
		fails       = count{value: 1}
	)
	cmd := &cobra.Command{
		Use:   "ladder [--interval <duration>] [--increment <duration>] [--max-interval <duration>] [--max-failures <count>|never] [--fails <count>]",
		Short: "Prints the schedule of checks that options lead to",
		Long: `
Prints when an upstream that goes on failing is checked, and when it is retired,
with the health check options given; each flag is an option of load_balance. No
running Caddy is needed.

The exit code is 0, or 1 if an option has a bad value.`,
		Example: `  $ caddy upstreams ladder
  $ caddy upstreams ladder --interval 10s --increment 0 --max-failures never`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.Var(&interval, "interval", "health_interval: the delay between the checks of an upstream that is up")
	flags.Var(&increment, "increment", "health_increment: how much longer the delay becomes with every failed check, 0 for constant")
	flags.Var(&maxInterval, "max-interval", "health_max_interval: the longest delay (default 1m0s, or the interval if that is longer)")
	flags.Var(&maxFailures, "max-failures", "health_max_failures: failed checks in a row that retire an upstream, or never")
	flags.Var(&fails, "fails", "health_fails: failed checks in a row that take an upstream down")
	run(cmd, func([]string) error {
		step := caddy.Duration(increment.value)
		config := healthcheck.Config{
			Increment:   &step,
			MaxInterval: caddy.Duration(maxInterval.value),
			MaxFailures: maxFailures.value,
		}
		config.Interval = caddy.Duration(interval.value)
		config.Fails = fails.value
		if err := config.Validate(); err != nil {
			return err
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), schedule(config.Settings()))
		return err
	})
	return cmd
}

// rungsShown is how many checks are listed; of longer schedules, the end is
// too.
const rungsShown = 20

// schedule returns the schedule of an upstream that was up and fails every
// check from now on, in words.
func schedule(set healthcheck.Settings) string {
	most := rungsShown
	if set.MaxFailures > 0 {
		most = max(set.MaxFailures, set.Fails)
	}
	up := healthcheck.State{Status: healthcheck.Up}
	start := time.Time{}
	checks, retired := up.Forecast(set, start, most, true)

	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, len(gap), ' ', 0)
	fmt.Fprintln(table, "CHECK\tDELAY\tAFTER\tSTATUS")
	state := up
	var longest time.Duration
	for i, at := range checks {
		state.Apply(set, healthcheck.Result{Others: true})
		delay := time.Duration(0)
		if i > 0 {
			delay = at.Sub(checks[i-1])
		}
		longest = max(longest, delay)
		switch last := len(checks) - 1; {
		case i < rungsShown, i == last:
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", i+1, dash(delay), duration(at.Sub(start)), state.Status)
		case i == rungsShown:
			fmt.Fprintln(table, "...\t\t\t")
		}
	}
	if !retired {
		fmt.Fprintln(table, "...\t\t\t")
	}
	_ = table.Flush()
	return trimLines(b.String()) + "\n" + strings.Join(notes(set, longest, retired), "\n") + "\n"
}

// notes returns what the table does not say.
func notes(set healthcheck.Settings, longest time.Duration, retired bool) []string {
	last, limit := duration(set.Ladder(math.MaxInt)), duration(set.MaxInterval)
	var notes []string
	switch {
	case !retired:
		notes = append(notes, "Warning: the upstream is never retired, however long it fails, but checked every "+last+".")
	case set.MaxFailures < set.Fails:
		notes = append(notes, fmt.Sprintf("Warning: the maximum of %d failures comes too early, an upstream is not down before %d.", set.MaxFailures, set.Fails))
	}
	switch {
	case set.Increment == 0 && set.Interval < set.MaxInterval:
		notes = append(notes, "The delay does not grow: it never becomes the longest one, "+limit+".")
	case retired && longest < set.MaxInterval:
		notes = append(notes, "The delay does not become the longest one, "+limit+": the upstream is retired before that.")
	}
	if retired {
		notes = append(notes, "The last upstream of a pool in rotation is not retired, but checked every "+limit+".")
	}
	return append(notes, "Jitter and the time that checks take are left out.")
}

// dash returns a delay, and a dash for none.
func dash(delay time.Duration) string {
	if delay == 0 {
		return "-"
	}
	return duration(delay)
}

// trimLines removes the spaces at the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
