package caddyfile

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

var position = regexp.MustCompile(`(at|in|on) Fuzzed:\d+|, at :0$`)

// FuzzParse checks on any text that Parse does not panic, leaves the tokens
// alone, gives the same result twice, and names file and line in its errors.
// If the text can stand in a Caddyfile, what Caddy's parser alone accepts or
// refuses, Parse accepts with the same result, or refuses.
func FuzzParse(f *testing.F) {
	for _, tt := range stockDirectives {
		f.Add(tt.text)
	}
	all := make([]int, len(entries))
	for i, entry := range entries {
		all[i] = i
		f.Add("load_balance a {\n" + entry.text + "\n}")
	}
	text, _ := inOrder(all)
	f.Add(text)
	for _, text := range []string{
		"load_balance a {\nupstream b:1-3 {\nmax_requests 5\n}\nupstream b:2 {\nmax_requests 6\n}\n}",
		"load_balance a {\nupstream b {\nbackup\nweight 5\n}\nslow_start 0\nlb_policy smooth_round_robin\n}",
		"load_balance a {\nupstream b {\nweight 5\n}\nslow_start 5s\nlb_policy smooth_round_robin 1 0 2\n}",
		"load_balance a {\nslow_start 5s\nlb_policy cookie x\n}",
		"load_balance a {\nhealth_max_interval 1s\nhealth_interval 2s\n}",
		"load_balance a {\nname x {\n}\nname y\n}",
		"load_balance a {\nlb_retries 0 lb_retries 1 health_port 0\n}",
		"load_balance a {\nupstream }\n} {\n{\n}\nname \"{\"\n}",
	} {
		f.Add(text)
	}

	helper := helper(f)
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := lex.Tokenize([]byte(text), "Fuzzed")
		if err != nil || len(tokens) == 0 {
			t.Skip()
		}
		if slices.ContainsFunc(tokens, manyUpstreams) {
			t.Skip()
		}
		fresh := slices.Clone(tokens)
		dir, err := Parse(helper.WithDispenser(lex.NewDispenser(tokens)))
		again, errAgain := Parse(helper.WithDispenser(lex.NewDispenser(fresh)))
		if (err == nil) != (errAgain == nil) {
			t.Fatalf("got error %v, then %v", err, errAgain)
		}
		if err == nil {
			if got, want := asJSON(t, again), asJSON(t, dir); got != want {
				t.Fatalf("got %s, then %s", want, got)
			}
		}
		for i, token := range tokens {
			if token.Text != fresh[i].Text {
				t.Fatalf("token %d, %q, is now %q", i, fresh[i].Text, token.Text)
			}
		}

		if !inCaddyfile(text, tokens) {
			return
		}
		proxy, stockErr := stockHandler(helper.WithDispenser(lex.NewDispenser(tokens)))
		if err != nil {
			if !position.MatchString(err.Error()) && (stockErr == nil || stockErr.Error() != err.Error()) {
				t.Fatalf("no position in error %q", err)
			}
			if stockErr == nil && !strings.Contains(err.Error(), ": must ") {
				t.Fatalf("Caddy accepts what we refuse: %v", err)
			}
			return
		}
		if stockErr == nil {
			dropEmpty(proxy)
			if got, want := asJSON(t, asStock(dir)), asJSON(t, proxy); got != want {
				t.Fatalf("got %s\nCaddy has %s", got, want)
			}
		} else if !slices.ContainsFunc(tokens, isOurs) {
			t.Fatalf("we accept what Caddy refuses: %v", stockErr)
		}
	})
}

// inCaddyfile reports whether a directive with these tokens can stand in a
// Caddyfile: not with braces in odd places.
func inCaddyfile(text string, tokens []lex.Token) bool {
	if strings.Contains(text, "import") {
		return false // reads files
	}
	blocks, err := lex.Parse("Fuzzed", []byte(":80 {\n"+text+"\n}"))
	return err == nil && len(blocks) == 1 && len(blocks[0].Segments) == 1 &&
		slices.EqualFunc(blocks[0].Segments[0], tokens, func(a, b lex.Token) bool {
			return a.Text == b.Text && a.Line == b.Line+1
		})
}

// wideRange is a range of ports that may stand for hundreds of upstreams.
var wideRange = regexp.MustCompile(`:.*-.*\d{3}`)

func manyUpstreams(token lex.Token) bool {
	return wideRange.MatchString(token.Text)
}

func isOurs(token lex.Token) bool {
	_, ours := options[token.Text]
	return ours
}
