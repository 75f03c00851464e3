package weir_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// maxPackages limits the number of packages, without commands and packages that have only tests.
// Before you raise it, look for packages that have one purpose together.
const maxPackages = 58

// TestArchitecture checks the table of packages in ARCHITECTURE.md: it lists every package of the
// repository and no other, and each package imports only packages above it. Only package compress
// imports klauspost/compress.
func TestArchitecture(t *testing.T) {
	const module = "github.com/weirproject/weir"
	rank := packageTable(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}} {{if or (eq .Name "main") (eq (join .GoFiles "") "" "doc.go")}}other{{else}}library{{end}} {{join .Imports " "}}`,
		"./...", "./measure/bench/...", "./measure/doctor/...", "./cmd/weir/...", "./controllerruntime/...", "./proxy/...", "./e2e/...", "./examples/...", "./metrics/...")
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	name := func(path string) (string, bool) {
		if path == module {
			return "weir", true
		}
		return strings.CutPrefix(path, module+"/")
	}
	found, libraries := map[string]bool{}, 0
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		of, _ := name(paths[0])
		found[of] = true
		if paths[1] == "library" {
			libraries++
		}
		if _, ok := rank[of]; !ok {
			t.Errorf("ARCHITECTURE.md does not have %s", of)
		}
		for _, path := range paths[2:] {
			if imported, ok := name(path); ok && rank[imported] >= rank[of] {
				t.Errorf("%s imports %s, which does not stand above it", of, imported)
			}
			if strings.HasPrefix(path, "github.com/klauspost/compress") && of != "internal/core/compress" {
				t.Errorf("%s imports %s", of, path)
			}
		}
	}
	if libraries > maxPackages {
		t.Errorf("there are %d packages, more than %d", libraries, maxPackages)
	}
	for of := range rank {
		if !found[of] {
			t.Errorf("ARCHITECTURE.md has %s, which is no package", of)
		}
	}
}

// quoted matches text between backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// section returns a section of ARCHITECTURE.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "## "+heading+"\n")
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// packageTable returns the row of each package in ARCHITECTURE.md's first table.
func packageTable(t *testing.T) map[string]int {
	t.Helper()
	rank := map[string]int{}
	for line := range strings.Lines(section(t, "The packages")) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, path := range quoted.FindAllStringSubmatch(first, -1) {
				rank[path[1]] = len(rank) + 1
			}
		}
	}
	return rank
}

// TestWhereToPutWhat: each path that ARCHITECTURE.md names exists, and it names each file of
// package proxy, which has too many files to search.
func TestWhereToPutWhat(t *testing.T) {
	paths := 0
	listed := map[string]bool{"doc.go": true}
	for line := range strings.Lines(section(t, "Where to put what")) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, path := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if found, err := filepath.Glob(path[1]); err != nil || len(found) == 0 {
				t.Errorf("there is no %s (%v):%s", path[1], err, cells[1])
			}
			paths++
			if file, ok := strings.CutPrefix(path[1], "proxy/"); ok {
				listed[file] = true
			}
		}
	}
	if paths == 0 {
		t.Error("there are no paths in the table")
	}
	for _, file := range goFiles(t)["proxy"] {
		if !listed[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("no line says when to look in proxy/%s", file)
		}
	}
}

// goFiles returns the Go files of the repository by folder, except those in testdata.
func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != "."):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			files[filepath.Dir(path)] = append(files[filepath.Dir(path)], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLengths: no file has more than 400 lines, or 800 if it has one type with its methods. Prose
// in comments, and lines with a comment after code, end at column 100. Preformatted text and the
// output of examples may be longer.
func TestLengths(t *testing.T) {
	preformatted := regexp.MustCompile(`^\t*//(\t|   |go:)`)
	comment := regexp.MustCompile(`^\t*//`)
	for dir, files := range goFiles(t) {
		for _, name := range files {
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines, output := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), false
			if n := len(lines); n > 800 || n > 400 && !hasOneType(text) {
				t.Errorf("%s has %d lines", path, n)
			}
			trailing := trailingComments(text)
			for i, line := range lines {
				if n := utf8.RuneCountInString(line); n > 100 && trailing[i+1] {
					t.Errorf("%s:%d: a line of %d columns with a comment behind its code", path, i+1, n)
				}
				is := comment.MatchString(line)
				output = is && (output || strings.HasSuffix(line, "utput:"))
				if n := utf8.RuneCountInString(line); is && !output && n > 100 && !preformatted.MatchString(line) {
					t.Errorf("%s:%d: a comment of %d columns", path, i+1, n)
				}
			}
		}
	}
}

// receiver matches the type of a method's receiver.
var receiver = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)[^)]*\) )?\w+`)

// hasOneType reports whether at least two thirds of a file's functions are methods of one type.
func hasOneType(text []byte) bool {
	methods, all := map[string]int{}, 0
	for _, m := range receiver.FindAllSubmatch(text, -1) {
		all++
		if len(m[1]) > 0 {
			methods[string(m[1])]++
		}
	}
	return len(methods) > 0 && 3*slices.Max(slices.Collect(maps.Values(methods))) >= 2*all
}

// TestProseLengths: the prose of documents, and the comments in files that are neither Go nor
// documents, end at column 100. Tables and code in documents may be longer.
func TestProseLengths(t *testing.T) {
	comment := regexp.MustCompile(`(^|\s)(#|//) ([^i]|i[^n])`) // not "indirect", which go writes
	documents, others := 0, 0
	for _, path := range textFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		document := strings.HasSuffix(path, ".md")
		if document {
			documents++
		} else {
			others++
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			fence := document && strings.HasPrefix(strings.TrimSpace(line), "```")
			code = code != fence
			prose := comment.MatchString(line)
			if document {
				prose = !code && !fence && !strings.HasPrefix(line, "|")
			}
			if n := utf8.RuneCountInString(line); prose && n > 100 {
				t.Errorf("%s:%d: prose of %d columns", path, i+1, n)
			}
		}
	}
	if documents == 0 || others == 0 {
		t.Errorf("found %d documents and %d other files", documents, others)
	}
}

// textFiles returns the repository's documents and its other files with comments, except Go files.
func textFiles(t *testing.T) (files []string) {
	t.Helper()
	named := regexp.MustCompile(`\.(md|ya?ml|mod|work|css|js)$|(^|/)(Makefile|changes)$|^(scripts|\.ci)/`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()):
			return fs.SkipDir
		case !d.IsDir() && named.MatchString(filepath.ToSlash(path)):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// trailingComments returns the numbers of the lines of a Go file that have a comment after code.
func trailingComments(text []byte) map[int]bool {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lines, code := map[int]bool{}, 0 // code: the last line with code
	for {
		switch pos, tok, literal := s.Scan(); {
		case tok == token.EOF:
			return lines
		case tok == token.COMMENT:
			if line := file.Line(pos); line == code {
				lines[line] = true
			}
		case tok != token.SEMICOLON || literal == ";": // else the scanner inserted it
			code = file.Line(pos) + strings.Count(literal, "\n")
		}
	}
}

// TestListedFiles: a package comment that lists the package's files lists all of them.
func TestListedFiles(t *testing.T) {
	name, lists := regexp.MustCompile(`[a-z_]+\.go\b`), 0
	for dir, files := range goFiles(t) {
		if !slices.Contains(files, "doc.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, list, ok := strings.Cut(string(text), "// # Files\n")
		if !ok {
			continue
		}
		lists++
		files = slices.DeleteFunc(files, func(f string) bool { return f == "doc.go" || strings.HasSuffix(f, "_test.go") })
		if diff := cmp.Diff(files, slices.Sorted(slices.Values(name.FindAllString(list, -1)))); diff != "" {
			t.Errorf("%s/doc.go lists other files (+) than there are (-):\n%s", dir, diff)
		}
	}
	if lists == 0 {
		t.Error("there are no lists of files")
	}
}

// TestGoroutines: every package that starts a goroutine checks with goleak that none leaks, except
// those that ARCHITECTURE.md excepts.
func TestGoroutines(t *testing.T) {
	excepted := regexp.MustCompile(`^(e2e|internal/testing/sim)(/|$)`)
	starters := 0
	for dir, files := range goFiles(t) {
		if excepted.MatchString(filepath.ToSlash(dir)) {
			continue
		}
		var starts string
		checks := false
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(dir, file))
			switch {
			case err != nil:
				t.Fatal(err)
			case strings.HasSuffix(file, "_test.go"):
				checks = checks || bytes.Contains(text, []byte("goleak."))
			case starts == "" && startsGoroutine(t, file, text):
				starts = file
			}
		}
		if starts == "" {
			continue
		}
		if starters++; !checks {
			t.Errorf("%s/%s starts a goroutine, and no test of its package uses goleak", dir, starts)
		}
	}
	if starters == 0 {
		t.Error("no package starts a goroutine")
	}
}

// startsGoroutine reports whether a file has a go statement or calls a method Go.
func startsGoroutine(t *testing.T, name string, text []byte) (found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Go" {
				found = true
			}
		}
		return !found
	})
	return found
}
