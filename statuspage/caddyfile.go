package statuspage

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("load_balance_status", parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder("load_balance_status", httpcaddyfile.Before, "respond")
}

// parseCaddyfile makes a handler of a load_balance_status directive. Syntax:
//
//	load_balance_status [<matcher>]
func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the directive's name
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	if h.Next() {
		return nil, h.Err("load_balance_status has no options and takes no block")
	}
	return new(Handler), nil
}
