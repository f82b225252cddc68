package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// explain returns the subcommand that tells the story of an upstream.
func explain() *cobra.Command {
	var from endpoint
	cmd := &cobra.Command{
		Use:   "explain <address> [--pool <name>] [--address <interface>] [--config <path> [--adapter <name>]]",
		Short: "Tells what happened to an upstream, and what comes next",
		Long: `
Tells what is known about an upstream, the latest results of its health checks,
and when it is checked next and retired if every check fails from now on. The
forecast leaves out jitter and the time that checks take.

Checks that were asked for outside the schedule are marked as extra. Those that
failed while the upstream was down do not count.

An upstream in several pools is explained for each, unless --pool is given.

The exit code is 0 if it is explained, and 1 if not: because there is no such
upstream, or the endpoint cannot be reached.`,
	}
	from.flags(cmd)
	takesAddress(cmd, &from)
	run(cmd, func(args []string) error {
		from.upstream = args[0]
		rows, err := from.list(true)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return from.missing()
		}
		for i, u := range rows {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), story(u, time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// story returns what is to be told of an upstream.
func story(u admin.Upstream, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in pool %s: %s", escape(u.Address), escape(u.Pool), escape(u.Status))
	if u.Since != nil {
		fmt.Fprintf(&b, " since %s (%s)", clock(now, *u.Since), ago(now, *u.Since))
	}
	b.WriteString("\n\n")
	facts := tabwriter.NewWriter(&b, 0, 0, len(gap), ' ', 0)
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(facts, "  %s\t%s\n", name, escape(fmt.Sprintf(format, args...)))
	}
	fact("In rotation", "%s", map[bool]string{true: "yes", false: "no"}[u.InRotation])
	fact("Operator mode", "%s", u.Operator)
	fact("Weight", "%s", weight(u))
	fact("Failed checks", "%s", failedInRow(u))
	if why := reason(u, now); why != "" {
		fact("Reason", "%s", why)
	}
	fact("Requests", "%d (%d of them without a response), %d under way", u.Requests, u.Errors, u.InFlight)
	fact(nextName(u), "%s", next(u, now))
	_ = facts.Flush()
	if u.Explanation != nil {
		tellPast(&b, u.History, now)
		tellForecast(&b, u, now)
	}
	return b.String()
}

func failedInRow(u admin.Upstream) string {
	if u.MaxFailures == 0 {
		return fmt.Sprintf("%d in a row, never retired for it", u.Failures)
	}
	return fmt.Sprintf("%d in a row, retired at %d", u.Failures, u.MaxFailures)
}

func nextName(u admin.Upstream) string {
	if u.Status == "retired" {
		return "Readmission"
	}
	return "Next check"
}

func next(u admin.Upstream, now time.Time) string {
	if u.NextCheck == nil {
		return "not planned"
	}
	return until(now, *u.NextCheck)
}

// tellPast lists results, newest first.
func tellPast(b *strings.Builder, history []admin.Past, now time.Time) {
	if len(history) == 0 {
		b.WriteString("\nNo check has had a result yet.\n")
		return
	}
	b.WriteString("\nLatest checks:\n")
	list := tabwriter.NewWriter(b, 0, 0, len(gap), ' ', 0)
	for _, past := range history {
		at, when := "-", "-"
		if past.Time != nil {
			at, when = clock(now, *past.Time), ago(now, *past.Time)
		}
		took := duration(time.Duration(past.DurationMS * float64(time.Millisecond)))
		fmt.Fprintf(list, "  %s\t%s\t%s\t%s\n", at, when, "took "+took, escape(outcome(past)))
	}
	_ = list.Flush()
}

// outcome returns what came of a check.
func outcome(past admin.Past) string {
	text := "passed"
	switch {
	case !past.OK:
		text = "failed: " + past.Error
	case past.StatusCode > 0:
		text += fmt.Sprintf(": status %d", past.StatusCode)
	}
	switch {
	case past.Extra && !past.Counted:
		text += " (extra, not counted)"
	case past.Extra:
		text += " (extra)"
	case !past.Counted:
		text += " (not counted)"
	}
	return text
}

// tellForecast lists the checks to come.
func tellForecast(b *strings.Builder, u admin.Upstream, now time.Time) {
	forecast := u.Forecast
	if len(forecast.Checks) == 0 {
		b.WriteString("\nNo check is planned.\n")
		return
	}
	b.WriteString("\nIf every check fails from now on:\n")
	list := tabwriter.NewWriter(b, 0, 0, len(gap), ' ', 0)
	for i, at := range forecast.Checks {
		if at == nil {
			continue
		}
		note := fmt.Sprintf("check %d", i+1)
		if forecast.RetireAt != nil && i == len(forecast.Checks)-1 {
			note += ", and retired"
		}
		fmt.Fprintf(list, "  %s\t%s\t%s\n", clock(now, *at), "in "+countdown(now, at), note)
	}
	_ = list.Flush()
	switch {
	case forecast.RetireAt != nil:
	case u.MaxFailures > 0 && u.Failures+len(forecast.Checks) >= u.MaxFailures:
		b.WriteString("  and so on, not retired, because the pool has no other in rotation\n")
	default:
		b.WriteString("  and so on\n")
	}
}

// ago returns how long ago at was.
func ago(now, at time.Time) string {
	past := now.Sub(at)
	if past < time.Second {
		return "just now"
	}
	return duration(past) + " ago"
}

// until returns when at is.
func until(now, at time.Time) string {
	left := countdown(now, &at)
	if left == "now" {
		return left
	}
	return fmt.Sprintf("%s (in %s)", clock(now, at), left)
}
