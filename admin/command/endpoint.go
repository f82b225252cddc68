package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-loadbalance/caddy-loadbalance/admin"
)

// endpoint is the admin endpoint of a Caddy, and what is wanted of it.
type endpoint struct {
	address, config, adapter string
	// pool and upstream filter. Empty means all.
	pool, upstream string
}

// flags gives cmd the flags that say where the endpoint is, and the filter by
// pool.
func (e *endpoint) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&e.config, "config", "c", "", "Configuration file to take the address of the administration listener from")
	flags.StringVarP(&e.adapter, "adapter", "a", "", "Name of config adapter to apply")
	flags.StringVar(&e.address, "address", "", "Address of the administration listener, if different from config")
	flags.StringVar(&e.pool, "pool", "", "Name of the pool, if not all")
	e.complete(cmd, "pool", func(u admin.Upstream) string { return u.Pool })
}

// complete completes a flag with what is known to the running Caddy.
func (e *endpoint) complete(cmd *cobra.Command, flag string, value func(admin.Upstream) string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return e.known(value), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // not possible: the flag exists, and has none yet
		panic(err)
	}
}

// known returns the values of all upstreams, for completion: none if the
// endpoint does not answer soon.
func (e *endpoint) known(value func(admin.Upstream) string) []cobra.Completion {
	answer := make(chan []admin.Upstream, 1)
	go func() {
		all := *e
		all.pool, all.upstream = "", ""
		rows, _ := all.list(false)
		answer <- rows
	}()
	var values []cobra.Completion
	select {
	case rows := <-answer:
		for _, u := range rows {
			values = append(values, escape(value(u)))
		}
	case <-time.After(2 * time.Second):
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// list returns the upstreams that match, by pool and then as configured.
func (e *endpoint) list(explain bool) ([]admin.Upstream, error) {
	query := e.query()
	if explain {
		query.Set("explain", "1")
	}
	return e.upstreams(http.MethodGet, "upstreams", query)
}

// do asks for an action.
func (e *endpoint) do(action string, query url.Values) ([]admin.Upstream, error) {
	return e.upstreams(http.MethodPost, action, query)
}

func (e *endpoint) upstreams(method, path string, query url.Values) ([]admin.Upstream, error) {
	body, err := e.ask(method, path, query)
	if err != nil {
		return nil, err
	}
	var rows []admin.Upstream
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("no answer of the load_balance admin API: %w", err)
	}
	slices.SortStableFunc(rows, func(a, b admin.Upstream) int { return strings.Compare(a.Pool, b.Pool) })
	return rows, nil
}

// ask sends a request to the endpoint, as other commands of Caddy do. Its
// connection is not kept, for no other request would use it.
func (e *endpoint) ask(method, path string, query url.Values) ([]byte, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(e.address, nil, e.config, e.adapter)
	if err != nil {
		return nil, fmt.Errorf("couldn't determine admin API address: %w", err)
	}
	e.address = address // the config is read once
	uri := "/load_balance/" + path
	if len(query) > 0 {
		uri += "?" + query.Encode()
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, uri, http.Header{"Connection": {"close"}}, nil)
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return body, nil
}

// query returns the filter.
func (e *endpoint) query() url.Values {
	query := make(url.Values)
	if e.pool != "" {
		query.Set("pool", e.pool)
	}
	if e.upstream != "" {
		query.Set("upstream", e.upstream)
	}
	return query
}

// missing is the error that nothing matches, worded as by the API.
func (e *endpoint) missing() error {
	switch {
	case e.upstream == "":
		return fmt.Errorf("no upstream in pool %s", e.pool)
	case e.pool == "":
		return fmt.Errorf("no such upstream: %s", e.upstream)
	}
	return fmt.Errorf("no such upstream: %s in pool %s", e.upstream, e.pool)
}

// plain returns the message alone of an error of the admin API, which Caddy
// hands out as the status and the JSON around the message.
func plain(err error) error {
	text := strings.TrimSpace(err.Error())
	if strings.HasSuffix(text, "404 page not found") {
		return errors.New("the Caddy at the admin endpoint runs without load_balance: it does not know the path")
	}
	if at := strings.Index(text, "{"); at >= 0 {
		var answer caddy.APIError
		if json.Unmarshal([]byte(text[at:]), &answer) == nil && answer.Message != "" {
			return errors.New(answer.Message)
		}
	}
	return errors.New(text)
}
