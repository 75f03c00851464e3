package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	gofmt "go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
)

// sourceFile is a parsed Go file, and the edits that migrate plans for it.
type sourceFile struct {
	path   string
	source []byte
	syntax *ast.File
	fset   *token.FileSet
	info   *types.Info

	edits    []sourceEdit
	imports  map[string]string // the names of the imports that the edits use, by path
	replaced map[string]bool   // the import paths of replaced functions
	wrapped  map[wrappedConfig]bool
}

// sourceEdit replaces the bytes of a file from start to end.
type sourceEdit struct {
	start, end int
	text       string
}

// wrappedConfig is a config that a statement of a block passes to clientgo.Wrap.
type wrappedConfig struct {
	block  ast.Node
	config string
}

// readSource reads the Go files of a directory, or with "/..." also those of the directories below
// it. As with the go command, these exclude directories called vendor or testdata, those whose
// names start with a dot or an underscore, and other modules. readSource omits tests and disregards
// build constraints. It resolves identifiers, but reads no imported package.
func readSource(fset *token.FileSet, pattern string) (files []*sourceFile, err error) {
	root, below := strings.CutSuffix(filepath.ToSlash(pattern), "...")
	root = filepath.Clean(root)
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	packages := map[string][]*ast.File{}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		name := filepath.Base(at)
		switch {
		case err != nil || at == root && d.IsDir():
			return err
		case d.IsDir():
			_, err := os.Stat(filepath.Join(at, "go.mod"))
			if !below || err == nil || name == "vendor" || name == "testdata" || name[0] == '.' || name[0] == '_' {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(fset, at, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in := filepath.Dir(at) + ":" + syntax.Name.Name
		packages[in] = append(packages[in], syntax)
		files = append(files, &sourceFile{
			path: at, source: source, syntax: syntax, fset: fset, info: info,
			imports: map[string]string{}, replaced: map[string]bool{}, wrapped: map[wrappedConfig]bool{},
		})
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no Go files in %s", pattern)
	}
	config := &types.Config{Importer: emptyPackages{}, Error: func(error) {}, FakeImportC: true}
	for in, of := range packages {
		_, _ = config.Check(in, fset, of, info) // imported packages are empty, so there are errors
	}
	return files, err
}

// emptyPackages imports packages without their contents.
type emptyPackages struct{}

func (emptyPackages) Import(at string) (*types.Package, error) {
	p := types.NewPackage(at, strings.ReplaceAll(path.Base(at), "-", ""))
	p.MarkComplete()
	return p, nil
}

// qualified returns the import path and the name of an identifier of another package, or "".
func (f *sourceFile) qualified(e ast.Expr) (path, name string) {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			if p, ok := f.info.Uses[x].(*types.PkgName); ok {
				return p.Imported().Path(), s.Sel.Name
			}
		}
	}
	return "", ""
}

// weirs returns a function of one of Weir's packages, qualified by the name under which the file
// imports the package. If the file does not import it, the edits add an import.
func (f *sourceFile) weirs(at, function string) string {
	name := path.Base(at)
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == strconv.Quote(at) {
			f.imports[at] = name
			if spec.Name != nil {
				f.imports[at] = spec.Name.Name
			}
		}
	}
	taken := func(identifiers map[*ast.Ident]types.Object) bool {
		for ident, obj := range identifiers {
			imported, ok := obj.(*types.PkgName)
			file := f.position(ident).Filename
			if ident.Name == name && (ok && file == f.path && imported.Imported().Path() != at || !ok && filepath.Dir(file) == filepath.Dir(f.path)) {
				return true
			}
		}
		return false
	}
	if f.imports[at] == "" && (taken(f.info.Defs) || taken(f.info.Uses)) {
		name = "weir" + name
	}
	f.imports[at] = cmp.Or(f.imports[at], name)
	return f.imports[at] + "." + function
}

// replace replaces a function of the package at the import path.
func (f *sourceFile) replace(n ast.Node, at, text string) {
	f.edit(n.Pos(), n.End(), text)
	f.replaced[at] = true
}

// text returns the source of a node.
func (f *sourceFile) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *sourceFile) position(n ast.Node) token.Position { return f.fset.Position(n.Pos()) }

func (f *sourceFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// edit replaces the source from start to end.
func (f *sourceFile) edit(start, end token.Pos, text string) {
	f.edits = append(f.edits, sourceEdit{f.offset(start), f.offset(end), text})
}

// changed returns the source with the edits. It is formatted if it was formatted before.
func (f *sourceFile) changed() ([]byte, error) {
	slices.SortStableFunc(f.edits, func(a, b sourceEdit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	at := 0
	for _, e := range f.edits {
		out = append(append(out, f.source[at:e.start]...), e.text...)
		at = e.end
	}
	out, err := f.fixImports(append(out, f.source[at:]...))
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", f.path, err)
	}
	if before, err := gofmt.Source(f.source); err == nil && bytes.Equal(before, f.source) {
		return gofmt.Source(out)
	}
	if bytes.Contains(f.source, []byte("\r\n")) {
		out = bytes.ReplaceAll(bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	}
	return out, nil
}

// fixImports adds the imports that the edits use, and removes imports that became unused. It
// formats only the import declarations.
func (f *sourceFile) fixImports(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	all, err := parser.ParseFile(fset, f.path, source, 0)
	if err != nil {
		return nil, err
	}
	end := 0
	for _, decl := range all.Decls {
		if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.IMPORT {
			end = fset.Position(decl.End()).Offset
		}
	}
	head, err := parser.ParseFile(fset, f.path, source[:end], parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for at, name := range f.imports {
		if name == path.Base(at) {
			name = ""
		}
		astutil.AddNamedImport(fset, head, name, at)
	}
	for _, spec := range all.Imports {
		at, _ := strconv.Unquote(spec.Path.Value)
		if f.replaced[at] && !astutil.UsesImport(all, at) {
			name := ""
			if spec.Name != nil {
				name = spec.Name.Name
			}
			astutil.DeleteNamedImport(fset, head, name, at)
		}
	}
	var out bytes.Buffer
	err = gofmt.Node(&out, fset, head)
	return append(bytes.TrimRight(out.Bytes(), "\n"), source[end:]...), err
}
