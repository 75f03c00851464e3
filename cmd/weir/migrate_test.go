package main

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
)

// TestMigrate migrates the programs in testdata/migrate and compares the diffs and decisions with
// golden files. A dry run writes nothing, a second run changes nothing, and the programs compile
// before and after.
func TestMigrate(t *testing.T) {
	archives, err := filepath.Glob("testdata/migrate/*.txtar")
	check.NoError(t, err)
	types := newTypeChecker(t, archives)
	for _, path := range archives {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			check.NoError(t, err)
			want, err := filepath.Abs(filepath.Join("testdata/migrate", name+".out"))
			check.NoError(t, err)
			t.Chdir(t.TempDir())
			check.NoError(t, txtar.Write(archive, "."))
			before := filesBelow(t)
			types.check(t)

			out, report := runMigrate(t, "./...")
			golden.File(t, want, out+report)
			check.Equal(t, filesBelow(t), before, "files after a dry run")

			written, _ := runMigrate(t, "--write", "./...", ".")
			check.Equal(t, written, out, "the diff of --write")
			types.check(t)
			after := filesBelow(t)
			again, _ := runMigrate(t, "--write", "./...")
			check.Equal(t, again, "", "the diff of a second run")
			check.Equal(t, filesBelow(t), after, "files after a second run")
		})
	}
}

// TestMigrateLineEndings checks that a file with CRLF line endings keeps them.
func TestMigrateLineEndings(t *testing.T) {
	t.Chdir(t.TempDir())
	const before = "package p\r\n\r\nimport (\r\n\t\"k8s.io/client-go/tools/cache\"\r\n)\r\n\r\nvar _ = cache.NewSharedInformer(nil, nil, 0)\r\n"
	check.NoError(t, os.WriteFile("p.go", []byte(before), 0o600))
	runMigrate(t, "--write", ".")
	after, err := os.ReadFile("p.go")
	check.NoError(t, err)
	check.Equal(t, string(after), strings.NewReplacer("k8s.io/client-go/tools/cache", clientgoPath, "cache.New", "clientgo.New").Replace(before))
	info, err := os.Stat("p.go")
	check.NoError(t, err)
	check.Equal(t, info.Mode().Perm(), 0o600, "the file's mode")
}

func runMigrate(t *testing.T, args ...string) (out, report string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"migrate"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	check.NoError(t, root.ExecuteContext(t.Context()))
	return stdout.String(), stderr.String()
}

// filesBelow returns the names and contents of all files below the working directory.
func filesBelow(t *testing.T) string {
	t.Helper()
	archive := &txtar.Archive{}
	check.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		archive.Files = append(archive.Files, txtar.File{Name: path, Data: data})
		return err
	}))
	return string(txtar.Format(archive))
}

// typeChecker checks packages with the real packages that they import.
type typeChecker struct {
	fset     *token.FileSet
	importer types.Importer
}

// newTypeChecker returns a type checker that can import all imports of the archives, and Weir's
// packages.
func newTypeChecker(t *testing.T, archives []string) *typeChecker {
	t.Helper()
	fset := token.NewFileSet()
	imports := []string{clientgoPath, controllerruntimePath}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		check.NoError(t, err)
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, ".go") {
				syntax, err := parser.ParseFile(fset, f.Name, f.Data, parser.ImportsOnly)
				check.NoError(t, err)
				for _, spec := range syntax.Imports {
					imported, err := strconv.Unquote(spec.Path.Value)
					check.NoError(t, err)
					imports = append(imports, imported)
				}
			}
		}
	}
	slices.Sort(imports)
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, slices.Compact(imports)...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	check.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 2 {
			exports[words[0]] = words[1]
		}
	}
	return &typeChecker{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
}

// check reports the type errors of all packages below the working directory, except tests.
func (c *typeChecker) check(t *testing.T) {
	t.Helper()
	packages := map[string][]*ast.File{}
	check.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		syntax, err := parser.ParseFile(c.fset, path, nil, 0)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], syntax)
		return err
	}))
	for path, files := range packages {
		config := &types.Config{Importer: c.importer, Error: func(err error) { t.Error(err) }}
		_, _ = config.Check(path, c.fset, files, nil)
	}
}
