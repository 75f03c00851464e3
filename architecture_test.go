package weir_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
)

// maxPackages limits the number of library packages. It does not count commands or packages that
// contain only tests. Before you raise the limit, merge packages that share one purpose.
const maxPackages = 55

// TestArchitecture checks the table of packages in ARCHITECTURE.md: the table lists exactly the
// packages of the repository, and each package imports only packages of rows above its own row. It
// also checks that only package compress imports klauspost/compress.
func TestArchitecture(t *testing.T) {
	const module = "github.com/weirproject/weir"
	rank := packageTable(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}} {{if or (eq .Name "main") (eq (join .GoFiles "") "" "doc.go")}}other{{else}}library{{end}} {{join .Imports " "}}`,
		"./...", "./measure/bench/...", "./measure/doctor/...", "./cmd/weir/...", "./controllerruntime/...", "./proxy/...", "./e2e/...", "./e2e/programs/report/...", "./examples/...", "./metrics/...")
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly")
	out, err := list.Output()
	check.NoError(t, err)
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

var quoted = regexp.MustCompile("`([^`]+)`")

func section(t *testing.T, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(textOf(t, "ARCHITECTURE.md"), "## "+heading+"\n")
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// packageTable returns the row number of each package in ARCHITECTURE.md's first table.
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

// TestWhereToPutWhat checks that each path in ARCHITECTURE.md exists. It also checks that
// ARCHITECTURE.md names each file of package proxy, because that package has too many files to
// search.
func TestWhereToPutWhat(t *testing.T) {
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
			if file, ok := strings.CutPrefix(path[1], "proxy/"); ok {
				listed[file] = true
			}
		}
	}
	for _, file := range goFiles(t)["proxy"] {
		if !listed[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("no line says when to look in proxy/%s", file)
		}
	}
}

// TestListedFiles checks that a package comment with a section "Files" lists all files of the
// package.
func TestListedFiles(t *testing.T) {
	name, lists := regexp.MustCompile(`[a-z_]+\.go\b`), 0
	for dir, files := range goFiles(t) {
		if !slices.Contains(files, "doc.go") {
			continue
		}
		_, list, ok := strings.Cut(textOf(t, path.Join(dir, "doc.go")), "// # Files\n")
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

// TestGoroutines checks that each package that starts a goroutine has a test that uses goleak. The
// end-to-end tests and the simulation are exceptions.
func TestGoroutines(t *testing.T) {
	starts, checks := map[string]string{}, map[string]bool{}
	for file, text := range repository(t, `\.go$`) {
		switch {
		case strings.HasSuffix(file, "_test.go"):
			checks[path.Dir(file)] = checks[path.Dir(file)] || strings.Contains(text, "goleak.")
		case startsGoroutine(t, file, text):
			starts[path.Dir(file)] = file
		}
	}
	excepted := regexp.MustCompile(`^(e2e|internal/testing/sim)(/|$)`)
	for dir, file := range starts {
		if !checks[dir] && !excepted.MatchString(dir) {
			t.Errorf("%s starts a goroutine, and no test of its package uses goleak", file)
		}
	}
	if len(starts) == 0 {
		t.Error("no package starts a goroutine")
	}
}

// startsGoroutine reports whether a file has a go statement or calls a method Go.
func startsGoroutine(t *testing.T, name, text string) (found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	check.NoError(t, err)
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

// unsafePackages lists the packages that may import unsafe. Each has an alternative without unsafe
// for the build tag weir_safe.
var unsafePackages = []string{"internal/core/codec", "internal/core/private", "internal/core/views"}

// TestUnsafe checks that only the packages in unsafePackages import unsafe, and that the build tag
// weir_safe excludes each file that imports it. It also checks that no file uses go:linkname.
func TestUnsafe(t *testing.T) {
	const linkname = "//go:" + "linkname"
	importing := map[string]bool{}
	for file, text := range repository(t, `\.go$`) {
		if strings.Contains(text, linkname) {
			t.Errorf("%s uses go:linkname", file)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		check.NoError(t, err)
		if !slices.ContainsFunc(parsed.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"unsafe"` }) {
			continue
		}
		importing[path.Dir(file)] = true
		if !slices.Contains(unsafePackages, path.Dir(file)) {
			t.Errorf("%s imports unsafe", file)
		}
		if !strings.HasPrefix(text, "//go:build !weir_safe\n") {
			t.Errorf("%s imports unsafe with the build tag weir_safe too", file)
		}
	}
	check.Equal(t, len(importing), len(unsafePackages), "packages import unsafe")
}
