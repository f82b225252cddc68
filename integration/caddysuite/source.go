package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// rewriteStrings passes every string literal of a Go file through edit, which
// is told the function that it stands in ("" outside of functions), and
// replaces the number literals that are keys of numbers. Everything else, the
// comments included, stays as it is.
func rewriteStrings(name string, src []byte, edit func(function, text string) string, numbers map[string]string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}

	var out bytes.Buffer
	last := 0
	for _, decl := range file.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || err != nil {
				return err == nil
			}
			var replacement string
			replacement, err = editLiteral(lit, function, edit, numbers)
			if replacement != lit.Value {
				start := fset.Position(lit.Pos()).Offset
				out.Write(src[last:start])
				out.WriteString(replacement)
				last = start + len(lit.Value)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	out.Write(src[last:])
	return out.Bytes(), nil
}

// editLiteral returns the source of a literal after the edit.
func editLiteral(lit *ast.BasicLit, function string, edit func(function, text string) string, numbers map[string]string) (string, error) {
	if number, ok := numbers[lit.Value]; ok && lit.Kind == token.INT {
		return number, nil
	}
	if lit.Kind != token.STRING {
		return lit.Value, nil
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value, fmt.Errorf("string literal %s: %w", lit.Value, err)
	}
	edited := edit(function, text)
	switch {
	case edited == text:
		return lit.Value, nil
	case strings.HasPrefix(lit.Value, "`"):
		return "`" + edited + "`", nil
	default:
		return strconv.Quote(edited), nil
	}
}
