package statuspage

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

// ask sends a request to a handler.
func ask(t *testing.T, method, target string, header http.Header) (*httptest.ResponseRecorder, error) {
	t.Helper()
	h := new(Handler)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	if err := h.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Cleanup() })
	r := httptest.NewRequest(method, target, nil)
	r.Header = header
	w := httptest.NewRecorder()
	return w, h.ServeHTTP(w, r, nil)
}

func TestHeaders(t *testing.T) {
	w, err := ask(t, http.MethodGet, "/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Vary":                         "Accept",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy has no %s", part)
		}
	}
}

func TestMethods(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		for _, target := range []string{"/status", "/status?stream="} {
			w, err := ask(t, method, target, nil)
			var failed caddyhttp.HandlerError
			if !errors.As(err, &failed) || failed.StatusCode != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %v, Allow %q", method, target, err, w.Header().Get("Allow"))
			}
		}
	}
	for target, kind := range map[string]string{"/status": "text/html; charset=utf-8", "/status?stream=": "text/event-stream"} {
		if w, err := ask(t, http.MethodHead, target, nil); err != nil || w.Header().Get("Content-Type") != kind {
			t.Errorf("HEAD %s: %v, %v", target, err, w.Header())
		}
	}
}

func TestAccept(t *testing.T) {
	for _, tc := range []struct {
		accept string
		json   bool
	}{
		{"", false},
		{"*/*", false},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"application/json", true},
		{"Application/JSON; charset=utf-8, */*;q=0.1", true},
		{"text/html;q=0.5, application/json", true},
		{"application/json;q=0.5, text/html", false},
		{"application/json;q=0", false},
		{"application/json;q=x, ;;", false},
	} {
		w, err := ask(t, http.MethodGet, "/status", http.Header{"Accept": {tc.accept}})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Content-Type") == "application/json"; got != tc.json {
			t.Errorf("%q: JSON is %t", tc.accept, got)
		}
		if tc.json && w.Body.String() != "[]\n" {
			t.Errorf("%q: %s", tc.accept, w.Body)
		}
	}
}

func TestQuery(t *testing.T) {
	for target, want := range map[string]query{
		"/":                                      {},
		"/?q=%20Web++DOWN%20":                    {Search: "web down"},
		"/?troubled=1":                           {Troubled: true},
		"/?troubled=0&q=":                        {},
		"/?q=" + strings.Repeat("a", 1000):       {Search: strings.Repeat("a", maxSearch)},
		"/?q=%ff" + strings.Repeat("%C3%A4", 99): {Search: strings.Repeat("ä", maxSearch/2)},
	} {
		if got := queryOf(httptest.NewRequest(http.MethodGet, target, nil)); got != want {
			t.Errorf("%.40s: got %+v", target, got)
		}
	}
}

func TestCaddyfile(t *testing.T) {
	for _, tc := range []struct{ site, fails string }{
		{"load_balance_status", ""},
		{"load_balance_status /status", ""},
		{"load_balance_status /status*\n\trespond hello", ""},
		{"@m path /a /b\n\tload_balance_status @m", ""},
		{"handle_path /status* {\n\t\tload_balance_status\n\t}", ""},
		{"load_balance_status /status fast", "Caddyfile:2"},
		{"load_balance_status fast", "Caddyfile:2"},
		{"load_balance_status {\n\t\tfast\n\t}", "Caddyfile:"},
		{"load_balance_status /status {\n\t}", "Caddyfile:"},
	} {
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":80 {\n\t"+tc.site+"\n}\n"), nil)
		switch {
		case tc.fails == "" && err != nil:
			t.Errorf("%s: %v", tc.site, err)
		case tc.fails == "" && !strings.Contains(string(config), `{"handler":"load_balance_status"}`):
			t.Errorf("%s: %s", tc.site, config)
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s: error %v", tc.site, err)
		}
	}
}

// The page comes before what answers everything else.
func TestOrder(t *testing.T) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":80 {\n\treverse_proxy a:1\n\trespond hello\n\tload_balance_status\n}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(handler string) int { return strings.Index(string(config), `"handler":"`+handler+`"`) }
	if at("load_balance_status") < 0 || at("load_balance_status") > at("static_response") || at("load_balance_status") > at("reverse_proxy") {
		t.Errorf("config %s", config)
	}
}

func TestCleanupSurvivesWhateverHappenedBefore(t *testing.T) {
	h := new(Handler)
	if err := h.Cleanup(); err != nil {
		t.Error(err)
	}
}
