package caddyfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

func init() {
	caddy.RegisterModule(parsed{})
	httpcaddyfile.RegisterHandlerDirective("load_balance", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		lastHelper = h
		var err error
		lastDirective, err = Parse(h)
		return parsed{}, err
	})
	httpcaddyfile.RegisterDirectiveOrder("load_balance", httpcaddyfile.Before, "reverse_proxy")
}

// What the directive was given and made of it in the last adaptation.
var (
	lastHelper    httpcaddyfile.Helper
	lastDirective *Directive
)

// parsed stands for the handler that a directive becomes.
type parsed struct{}

func (parsed) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.parsed",
		New: func() caddy.Module { return new(parsed) },
	}
}

func (parsed) ServeHTTP(http.ResponseWriter, *http.Request, caddyhttp.Handler) error {
	return nil
}

// adapt runs a whole Caddyfile through the adapter, and returns what Parse
// made of the last directive in it.
func adapt(file, text string) (*Directive, error) {
	lastDirective = nil
	adapter := lex.Adapter{ServerType: httpcaddyfile.ServerType{}}
	_, _, err := adapter.Adapt([]byte(text), map[string]any{"filename": file})
	return lastDirective, err
}

// parse has Parse read a directive, without the way through a whole config.
func parse(t testing.TB, text string) (*Directive, error) {
	t.Helper()
	tokens, err := lex.Tokenize([]byte(text), "Caddyfile")
	if err != nil {
		t.Fatalf("tokenizing: %v\n%s", err, text)
	}
	return Parse(helper(t).WithDispenser(lex.NewDispenser(tokens)))
}

// helper returns a helper as the adapter makes them.
func helper(t testing.TB) httpcaddyfile.Helper {
	t.Helper()
	if lastHelper.Dispenser == nil {
		if _, err := adapt("Caddyfile", ":80 {\n\tload_balance a\n}\n"); err != nil {
			t.Fatal(err)
		}
	}
	return lastHelper
}

func mustParse(t testing.TB, text string) *Directive {
	t.Helper()
	dir, err := parse(t, text)
	if err != nil {
		t.Fatalf("parsing: %v\n%s", err, text)
	}
	return dir
}

// routeGroup is the name of a group of routes; Caddy counts them.
var routeGroup = regexp.MustCompile(`"group\d+"`)

// asJSON prints a value in a form that is equal for equal values.
func asJSON(t testing.TB, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return routeGroup.ReplaceAllString(string(text), `"group"`)
}

// here returns the position of the line with the comment `# here`.
func here(t testing.TB, file, text string) string {
	t.Helper()
	before, _, found := strings.Cut(text, "# here")
	if !found {
		t.Fatalf("no `# here` in\n%s", text)
	}
	return fmt.Sprintf("%s:%d", file, strings.Count(before, "\n")+1)
}

// wantError expects an error with all of parts in it, at the line with the
// comment `# here`.
func wantError(t testing.TB, err error, text string, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error for\n%s", text)
	}
	position := "at " + here(t, "Caddyfile", text)
	if !strings.HasSuffix(err.Error(), position) {
		t.Errorf("got error %q, want it %s", err, position)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}
