package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// list makes cmd the one that shows the upstreams.
func list(cmd *cobra.Command) {
	var (
		from         endpoint
		asJSON, live bool
	)
	cmd.Args = cobra.NoArgs
	cmd.Example = `  $ caddy upstreams --pool web
  $ caddy upstreams drain 10.0.0.1:8080 --for 10m --wait
  $ caddy upstreams explain 10.0.0.1:8080
  $ caddy upstreams ladder --interval 10s --max-failures 5`
	from.flags(cmd)
	cmd.Flags().StringVar(&from.upstream, "upstream", "", "Address of the upstream, if not all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print what the admin API answers")
	cmd.Flags().BoolVarP(&live, "watch", "w", false, "Show every change until interrupted")
	cmd.MarkFlagsMutuallyExclusive("json", "watch")
	from.complete(cmd, "upstream", func(u admin.Upstream) string { return u.Address })
	run(cmd, func([]string) error {
		out := cmd.OutOrStdout()
		switch {
		case live:
			return watch(cmd.Context(), &from, out, cmd.ErrOrStderr())
		case asJSON:
			return printJSON(&from, out)
		}
		rows, err := from.list(false)
		if err != nil {
			return err
		}
		if len(rows) == 0 && len(from.query()) > 0 {
			return from.missing()
		}
		return printTable(rows, out)
	})
}

// printJSON prints the answer of the API, indented.
func printJSON(from *endpoint, out io.Writer) error {
	body, err := from.ask(http.MethodGet, "upstreams", from.query())
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, body, "", gap); err != nil {
		return fmt.Errorf("no answer of the load_balance admin API: %w", err)
	}
	if _, err := out.Write(escapeJSON(text.Bytes())); err != nil {
		return err
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("[]")) && len(from.query()) > 0 {
		return from.missing()
	}
	return nil
}

// printTable prints the upstreams as a table.
func printTable(rows []admin.Upstream, out io.Writer) error {
	room, _ := terminal(out)
	for _, line := range table(rows, time.Now(), room) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// terminal returns the size of the terminal that out writes to, zeros if it
// writes elsewhere.
func terminal(out io.Writer) (columns, lines int) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(file.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return columns, lines
}
