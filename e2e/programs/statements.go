package programs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
)

// countChanges returns the numbers of statements and of imports that differ between two versions of
// a Go file. A changed statement counts once, on any line.
func countChanges(before, after []byte) (statements, imports int, err error) {
	s1, i1, err := statementsOf(before)
	if err != nil {
		return 0, 0, err
	}
	s2, i2, err := statementsOf(after)
	return differing(s1, s2), differing(i1, i2), err
}

// differing returns how many elements of a or b, whichever are more, are not in the other.
func differing(a, b []string) int {
	balance := map[string]int{}
	for _, text := range a {
		balance[text]++
	}
	for _, text := range b {
		balance[text]--
	}
	removed, added := 0, 0
	for _, n := range balance {
		removed, added = removed+max(n, 0), added+max(-n, 0)
	}
	return max(removed, added)
}

// statementsOf returns the statements and the imports of a file. The text of a statement does not
// contain the statements inside it. Declarations are statements, too.
func statementsOf(source []byte) (statements, imports []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	add := func(to *[]string, n ast.Node) {
		var b bytes.Buffer
		if printErr := printer.Fprint(&b, fset, n); err == nil {
			err = printErr
		}
		*to = append(*to, strings.Join(strings.Fields(b.String()), " "))
	}
	// The inner statements come first, and are then removed from the outer statement.
	astutil.Apply(file, nil, func(c *astutil.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.BlockStmt:
			n.List = nil
		case *ast.DeclStmt, *ast.LabeledStmt, *ast.EmptyStmt: // what they contain counts
		case *ast.ImportSpec:
			add(&imports, n)
		case *ast.CaseClause:
			n.Body = nil
			add(&statements, n)
		case *ast.CommClause:
			n.Body = nil
			add(&statements, n)
		case *ast.IfStmt:
			n.Else = nil
			add(&statements, n)
		case ast.Stmt, ast.Spec, *ast.FuncDecl:
			add(&statements, n)
		}
		return true
	})
	return statements, imports, err
}
