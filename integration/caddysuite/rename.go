package main

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// stockDirective is a line of a Caddyfile that opens with the directive.
	stockDirective = regexp.MustCompile(`^(\s*)reverse_proxy(\s|$)`)

	// headerBlock is a line that opens a block of header fields, which may have
	// any name.
	headerBlock = regexp.MustCompile(`^\s*header\s.*\{\s*$`)

	// stockHandler is the handler's name in JSON.
	stockHandler = regexp.MustCompile(`("handler"\s*:\s*)"reverse_proxy"`)

	// stockQuoted is the directive as error messages quote it.
	stockQuoted = regexp.MustCompile(`'reverse_proxy'`)
)

// adaptSeparator parts a Caddyfile from the JSON expected of it.
const adaptSeparator = "----------"

// shortcuts are the directives that expand to a reverse_proxy of Caddy's own.
// Their handlers keep their name in the expected JSON; mark is what tells them
// from those of a directive that stands in the Caddyfile itself.
var shortcuts = []struct {
	directive *regexp.Regexp
	mark      string
}{
	{regexp.MustCompile(`(?m)^[ \t]*forward_auth\s`), `"X-Forwarded-Method"`},
	{regexp.MustCompile(`(?m)^[ \t]*php_fastcgi\s`), `"protocol": "fastcgi"`},
}

// renameCount says how often something was renamed.
type renameCount struct {
	directives, handlers, messages int
}

func (c *renameCount) add(o renameCount) {
	c.directives += o.directives
	c.handlers += o.handlers
	c.messages += o.messages
}

// rename turns reverse_proxy into load_balance wherever text configures it:
// the directive in a Caddyfile, the handler in JSON, the directive quoted in an
// error message. Placeholders, module namespaces, comments and what other
// directives expand to keep the name.
func rename(text string) (string, renameCount) {
	var n renameCount
	text, n.directives = renameDirectives(text)
	n.messages = len(stockQuoted.FindAllStringIndex(text, -1))
	text = stockQuoted.ReplaceAllString(text, "'load_balance'")
	text, n.handlers = renameHandlers(text)
	return text, n
}

// renameDirectives renames the directive of Caddyfiles, but no header field of
// that name.
func renameDirectives(text string) (string, int) {
	lines := strings.SplitAfter(text, "\n")
	inHeader, n := false, 0
	for i, line := range lines {
		switch {
		case headerBlock.MatchString(line):
			inHeader = true
		case strings.TrimSpace(line) == "}":
			inHeader = false
		case !inHeader && stockDirective.MatchString(line):
			lines[i] = stockDirective.ReplaceAllString(line, "${1}load_balance${2}")
			n++
		}
	}
	return strings.Join(lines, ""), n
}

// renameHandlers renames the handlers of JSON that none of the shortcuts in
// the Caddyfile above it stands for.
func renameHandlers(text string) (string, int) {
	var marks []string
	caddyfile, _, _ := strings.Cut(text, adaptSeparator)
	for _, s := range shortcuts {
		if s.directive.MatchString(caddyfile) {
			marks = append(marks, s.mark)
		}
	}
	start := len(text)
	if i := strings.Index(text, adaptSeparator); i >= 0 {
		start = i
	}

	var out strings.Builder
	last, n := 0, 0
	for _, m := range stockHandler.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > start && containsAny(objectAround(text[start:], m[0]-start), marks) {
			continue
		}
		out.WriteString(text[last:m[3]])
		out.WriteString(`"load_balance"`)
		last, n = m[1], n+1
	}
	out.WriteString(text[last:])
	return out.String(), n
}

func containsAny(s string, subs []string) bool {
	for _, sub := range subs {
		if strings.Contains(s, sub) {
			return true
		}
	}
	return false
}

// objectAround returns the innermost JSON object around the byte at pos, or
// nothing if there is none.
func objectAround(text string, pos int) string {
	var open []int
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = append(open, i)
		case c == '}' && len(open) > 0:
			start := open[len(open)-1]
			open = open[:len(open)-1]
			if start < pos && pos < i {
				return text[start : i+1]
			}
		}
	}
	return ""
}

var (
	// ourDirective is a line of a Caddyfile that opens with our directive.
	ourDirective = regexp.MustCompile(`(?m)^([ \t]*)(load_balance(?:[ \t].*?)??)([ \t]+\{)?[ \t]*$`)

	// ourHandler is our handler's name in JSON.
	ourHandler = regexp.MustCompile(`"handler"\s*:\s*"load_balance"`)
)

// uncheck switches the active checks off for every load_balance in text, and
// says for how many.
func uncheck(text string) (string, int) {
	n := len(ourHandler.FindAllStringIndex(text, -1))
	text = ourHandler.ReplaceAllString(text, `${0}, "health_checks": {"active": {"protocol": "none"}}`)
	text = ourDirective.ReplaceAllStringFunc(text, func(line string) string {
		n++
		m := ourDirective.FindStringSubmatch(line)
		indent, directive, block := m[1], m[2], m[3]
		option := " {\n" + indent + "\thealth_protocol none"
		if block == "" {
			option += "\n" + indent + "}"
		}
		return indent + directive + option
	})
	return text, n
}

// stockAdmin is the admin address of Caddy's test helper; stockAdminPort is
// its port where it stands alone.
const (
	stockAdmin     = "localhost:2999"
	stockAdminPort = "2999"
)

// moveAdmin gives text another admin port.
func moveAdmin(text string, port int) string {
	return strings.ReplaceAll(text, stockAdmin, "localhost:"+strconv.Itoa(port))
}
