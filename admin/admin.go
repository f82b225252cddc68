// Package admin shows and steers the upstreams of all load_balance handlers
// at Caddy's admin endpoint:
//
//	GET  /load_balance/upstreams[?pool=&upstream=][&explain=1]
//	POST /load_balance/{drain|maint|ready}?upstream=ADDRESS[&pool=][&for=DURATION]
//	POST /load_balance/{check|readmit}?upstream=ADDRESS[&pool=]
package admin

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API is the admin API of load_balance. All answers are JSON arrays with an
// object per pool and upstream, see Upstream. Errors are in the form of
// Caddy's admin API: 404 for an action on an unknown upstream or
// pool, 405 for a wrong method, 400 for a missing parameter or a bad value.
type API struct{}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.load_balance",
		New: func() caddy.Module { return new(API) },
	}
}

// Routes implements caddy.AdminRouter.
func (api *API) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/load_balance/upstreams", Handler: caddy.AdminHandlerFunc(api.list)},
		{Pattern: "/load_balance/drain", Handler: mode(healthcheck.Drain)},
		{Pattern: "/load_balance/maint", Handler: mode(healthcheck.Maint)},
		{Pattern: "/load_balance/ready", Handler: mode(healthcheck.Ready)},
		{Pattern: "/load_balance/check", Handler: action((*healthcheck.Target).CheckNow)},
		{Pattern: "/load_balance/readmit", Handler: action((*healthcheck.Target).Readmit)},
	}
}

// mode returns a handler that sets an operator mode, for a time if `for` is
// given.
func mode(m healthcheck.Mode) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		lease, err := leaseOf(r)
		if err != nil {
			return err
		}
		return action(func(t *healthcheck.Target) { t.SetMode(m, lease) })(w, r)
	}
}

// leaseOf returns the duration after which a mode ends by itself, 0 for
// never.
func leaseOf(r *http.Request) (time.Duration, error) {
	query := r.URL.Query()
	if !query.Has("for") {
		return 0, nil
	}
	lease, err := caddy.ParseDuration(query.Get("for"))
	if err != nil || lease <= 0 {
		return 0, apiError(http.StatusBadRequest, fmt.Sprintf("the parameter 'for' must be a duration above zero, such as 10m, not '%s'", query.Get("for")))
	}
	return lease, nil
}

// list shows the upstreams.
func (*API) list(w http.ResponseWriter, r *http.Request) error {
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	explain := r.URL.Query().Get("explain")
	switch explain {
	case "", "0", "1":
	default:
		return apiError(http.StatusBadRequest, fmt.Sprintf("the parameter 'explain' must be 0 or 1, not '%s'", explain))
	}
	return write(w, filterOf(r), explain == "1")
}

// action returns a handler that does something to each named target and
// answers at once with the upstreams as they then are.
func action(do func(*healthcheck.Target)) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := allow(r, http.MethodPost); err != nil {
			return err
		}
		f := filterOf(r)
		if f.upstream == "" {
			return apiError(http.StatusBadRequest, "the parameter 'upstream' is missing")
		}
		found := false
		f.each(func(u upstreams.Upstream) bool {
			found = true
			do(u.Target)
			return true
		})
		if !found {
			return apiError(http.StatusNotFound, "no such upstream: "+f.String())
		}
		return write(w, f, false)
	}
}

// filter limits what is shown or steered. Empty fields match everything.
type filter struct{ pool, upstream string }

func filterOf(r *http.Request) filter {
	query := r.URL.Query()
	return filter{pool: query.Get("pool"), upstream: query.Get("upstream")}
}

func (f filter) String() string {
	if f.pool == "" {
		return f.upstream
	}
	return fmt.Sprintf("%s in pool %s", f.upstream, f.pool)
}

// each calls do for every upstream that matches until it returns false.
func (f filter) each(do func(upstreams.Upstream) bool) {
	for _, pool := range upstreams.Pools() {
		if f.pool != "" && f.pool != pool.Name() {
			continue
		}
		more := true
		pool.Each(func(u upstreams.Upstream) bool {
			if f.upstream == "" || f.upstream == u.Address {
				more = do(u)
			}
			return more
		})
		if !more {
			return
		}
	}
}

// write answers with the upstreams that match.
func write(w http.ResponseWriter, f filter, explain bool) error {
	w.Header().Set("Content-Type", "application/json")
	err := WriteArray(w, f.each, func(u upstreams.Upstream) Upstream {
		shown := NewUpstream(u)
		if explain {
			shown.Explanation = newExplanation(u)
		}
		return shown
	})
	if err != nil {
		return apiError(http.StatusInternalServerError, err.Error())
	}
	return nil
}

func allow(r *http.Request, method string) error {
	if r.Method != method {
		return apiError(http.StatusMethodNotAllowed, "method not allowed, use "+method)
	}
	return nil
}

func apiError(status int, message string) error {
	return caddy.APIError{HTTPStatus: status, Err: errors.New(message)}
}

// Interface guards
var (
	_ caddy.Module      = (*API)(nil)
	_ caddy.AdminRouter = (*API)(nil)
)
