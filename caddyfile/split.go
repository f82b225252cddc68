package caddyfile

import (
	lex "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// split cuts the tokens of a directive, or of a subdirective, into its own
// line, the segments in the block that this line opens, and what is left:
// the closing brace. Together they are the tokens, none missing and none
// changed.
func split(tokens lex.Segment) (line lex.Segment, body []lex.Segment, rest lex.Segment) {
	end := lineEnd(tokens)
	line, rest = tokens[:end], tokens[end:]
	if !endsWith(line, "{") {
		return line, nil, rest
	}
	for len(rest) > 0 && !closes(rest[:lineEnd(rest)]) {
		end = segmentEnd(rest)
		body, rest = append(body, rest[:end]), rest[end:]
	}
	return line, body, rest
}

// segmentEnd returns the length of the first segment of tokens: a line, and
// the block that it may open.
func segmentEnd(tokens lex.Segment) int {
	end, depth := 0, 0
	for end < len(tokens) {
		line := tokens[end:]
		line = line[:lineEnd(line)]
		end += len(line)
		switch {
		case endsWith(line, "{"):
			depth++
		case endsWith(line, "}"):
			depth--
		}
		if depth <= 0 {
			break
		}
	}
	return end
}

// lineEnd returns the length of the first line of tokens.
func lineEnd(tokens lex.Segment) int {
	for i := 1; i < len(tokens); i++ {
		if at(tokens[i-1], tokens[i]).NextLine() {
			return i
		}
	}
	return len(tokens)
}

// closes reports whether a line is the closing brace of a block.
func closes(line lex.Segment) bool {
	return len(line) == 1 && endsWith(line, "}")
}

// endsWith reports whether brace, unquoted, ends a line. In the middle of a
// line a brace is an argument.
func endsWith(line lex.Segment, brace string) bool {
	if len(line) == 0 {
		return false
	}
	last := line[len(line)-1]
	return last.Text == brace && !last.Quoted()
}

// at returns a dispenser that stands at the first of tokens, which is where
// its errors are.
func at(tokens ...lex.Token) *lex.Dispenser {
	d := lex.NewDispenser(tokens)
	d.Next()
	return d
}
