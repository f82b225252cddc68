package command

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`caddy responded with error: HTTP 404: {"error":"no such upstream: a {b}"}` + "\n": "no such upstream: a {b}",
		`caddy responded with error: HTTP 500: {broken`:                                    `caddy responded with error: HTTP 500: {broken`,
		`caddy responded with error: HTTP 500: {}`:                                         `caddy responded with error: HTTP 500: {}`,
		"caddy responded with error: HTTP 404: 404 page not found\n":                       "the Caddy at the admin endpoint runs without load_balance: it does not know the path",
		"performing request: connection refused":                                           "performing request: connection refused",
	} {
		if got := plain(errors.New(text)).Error(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// The list is in order of the pools' names, and within a pool as answered.
func TestListOrder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/load_balance/upstreams?explain=1&pool=a%26b&upstream=%2F" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write([]byte(`[{"pool":"web","address":"z"},{"pool":"web","address":"a"},{"pool":"api","address":"m"},{"pool":"web","address":"c"}]`))
	}))
	defer server.Close()
	from := endpoint{address: strings.TrimPrefix(server.URL, "http://"), pool: "a&b", upstream: "/"}
	rows, err := from.list(true)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, u := range rows {
		got += u.Pool + " " + u.Address + ","
	}
	equal(t, got, "api m,web z,web a,web c,")
}

func TestAnswersOfOthers(t *testing.T) {
	for body, want := range map[string]string{
		"<html>":       "no answer of the load_balance admin API",
		`{"pool":"a"}`: "no answer of the load_balance admin API",
		"":             "no answer of the load_balance admin API",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(body))
		}))
		from := endpoint{address: strings.TrimPrefix(server.URL, "http://")}
		if _, err := from.list(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", body, err)
		}
		server.Close()
	}
}
