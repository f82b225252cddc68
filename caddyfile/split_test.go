package caddyfile

import (
	"slices"
	"strings"
	"testing"

	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // the line, the segments of the body, the rest
	}{
		{"nothing", "", []string{"", ""}},
		{"line", "d a b", []string{"d a b", ""}},
		{"empty block", "d a {\n}", []string{"d a {", "}"}},
		{"options", "d {\na 1\nb\n}", []string{"d {", "a 1", "b", "}"}},
		{"blocks", "d {\na {\nb {\nc\n}\n}\ne {\n}\n}", []string{"d {", "a { b { c } }", "e { }", "}"}},
		{"quoted braces", "d {\na \"{\"\nb \"}\"\n`}`\n}", []string{"d {", "a {", "b }", "}", "}"}},
		{"braces as arguments", "d {\na { b\nc } d\n}", []string{"d {", "a { b", "c } d", "}"}},
		{"closed on the line", "d {\na {\nb }\nc\n}", []string{"d {", "a { b }", "c", "}"}},
		{"braces in a word", "d {\na {b} {}\n}", []string{"d {", "a {b} {}", "}"}},
		{"heredoc", "d {\na <<X\nb {\n}\nX\nc\n}", []string{"d {", "a b {\n}", "c", "}"}},
		{"escaped line break", "d {\na \\\nb\nc\n}", []string{"d {", "a b", "c", "}"}},
		{"unclosed", "d {\na {\nb", []string{"d {", "a { b", ""}},
		{"behind", "d {\na\n}\nb", []string{"d {", "a", "} b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tokens, err := lex.Tokenize([]byte(tt.text), "Caddyfile")
			if err != nil && tt.text != "" {
				t.Fatal(err)
			}
			line, body, rest := split(tokens)
			parts := append(append([]lex.Segment{line}, body...), rest)
			var got []string
			for _, part := range parts {
				var words []string
				for _, token := range part {
					words = append(words, token.Text)
				}
				got = append(got, strings.Join(words, " "))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if n := len(slices.Concat(parts...)); n != len(tokens) {
				t.Errorf("the parts have %d tokens of %d", n, len(tokens))
			}
		})
	}
}
