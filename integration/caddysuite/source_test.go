package main

import (
	"strings"
	"testing"
)

func TestRewriteStrings(t *testing.T) {
	const src = "package p\n\n" +
		"import \"x\"\n\n" +
		"// old in a comment\n" +
		"const c = \"old\\n\"\n\n" +
		"func f() { g(`old\n`, 2999, 29990, old, \"other\") }\n"
	const want = "package p\n\n" +
		"import \"x\"\n\n" +
		"// old in a comment\n" +
		"const c = \"new in \\n\"\n\n" +
		"func f() { g(`new in f\n`, 41, 29990, old, \"other\") }\n"

	edit := func(function, text string) string {
		return strings.ReplaceAll(text, "old", "new in "+function)
	}
	got, err := rewriteStrings("p.go", []byte(src), edit, map[string]string{"2999": "41"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestRewriteStringsOfBrokenFile(t *testing.T) {
	edit := func(_, text string) string { return text }
	if _, err := rewriteStrings("p.go", []byte("package"), edit, nil); err == nil {
		t.Error("a file that cannot be parsed is no error")
	}
}
