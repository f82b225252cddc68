package statuspage

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// protect sets the headers that every answer has. The page's own script and
// style are known by their hashes, so nothing else of the same origin, nor
// anything that a name or an error text might smuggle in, is ever run.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept")
}

// contentPolicy returns the policy for a page with that script and style, by
// their hashes.
func contentPolicy(script, style string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src '" + script + "'",
		"style-src '" + style + "'",
		"connect-src 'self'",
		"img-src data:", // the icon in the tab
		"form-action 'self'",
		"base-uri 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

// prefersJSON reports whether a request would rather have JSON than HTML.
func prefersJSON(header http.Header) bool {
	json, html := 0.0, 0.0
	for accepted := range strings.SplitSeq(strings.Join(header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(accepted)
		if err != nil {
			continue
		}
		weight := 1.0
		if given, ok := params["q"]; ok {
			if weight, err = strconv.ParseFloat(given, 64); err != nil {
				continue
			}
		}
		switch kind {
		case "application/json":
			json = max(json, weight)
		case "text/html":
			html = max(html, weight)
		}
	}
	return json > html
}
