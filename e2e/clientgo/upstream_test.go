package clientgo

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	// TestUpstream runs the package in another process. The import makes the go command discard a
	// cached result of TestUpstream when the package changes.
	_ "github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// internals are names that tests outside of client-go's package cannot use, or that Weir's package
// clientgo does not have. outsideTests removes the tests that use one of these names.
var internals = []string{"clock", "processor", "sharedProcessorRunHook", "NewIndexerInformer"}

// hooks contains new bodies for helpers of client-go's tests, by the helpers' names. The original
// bodies read private fields. The new bodies call Weir's package instead.
var hooks = map[string]string{
	"eventHandlerCount": "return clientgo.HandlerCount(i)",
	"isStarted":         "return clientgo.Started(i)",
	"isRegistered":      "return clientgo.Registered(i, h)",
}

// upstreamFails contains the tests that Weir's informer fails: the keys are their names, the values
// are the reasons.
var upstreamFails = map[string]string{
	"TestEventPanics": "a handler that has panicked receives the next event immediately, and not after a second",
}

// global are names of functions that change process-wide state. Tests that use one of these
// functions do not run in parallel.
var global = []string{"ReallyCrash", "CaptureState", "SetLogger"}

// TestUpstream runs client-go's own black-box tests of its shared informers on Weir's informers. It
// reads the tests from the client-go module that go.mod requires, because the repository has no
// copy of the tests. It runs them in Weir's package clientgo. The tests run in parallel, because
// most of them only wait.
func TestUpstream(t *testing.T) {
	upstream := filepath.Join(goList(t, "-m", "k8s.io/client-go"), "tools", "cache")
	dropIn := goList(t, "github.com/weirproject/weir/clientgo")
	dir := t.TempDir()
	var names []string
	replace := withoutTests(t, dropIn)
	for _, file := range []string{"util_test.go", "shared_informer_test.go"} {
		text, tests := outsideTests(t, filepath.Join(upstream, file))
		names = append(names, tests...)
		replace[filepath.Join(dropIn, "upstream_"+file)] = filepath.Join(dir, file)
		check.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	if len(names) < 15 {
		t.Errorf("only %d tests look from outside: %v", len(names), names)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	check.NoError(t, err)
	check.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	args := []string{"test", "-json", "-vet=off", "-ldflags=-s -w", "-parallel", strconv.Itoa(len(names)),
		"-overlay", filepath.Join(dir, "overlay.json"), "-run", "^(" + strings.Join(names, "|") + ")$", "."}
	run := exec.CommandContext(t.Context(), "go", args...)
	run.Dir = dropIn
	out, err := run.Output()
	passed, said := results(t, out)
	if len(passed) == 0 {
		t.Fatalf("nothing was run: %v\n%s", err, said[""])
	}
	for _, name := range names {
		why, expected := upstreamFails[name]
		switch {
		case !passed[name] && !expected:
			t.Errorf("%s fails:\n%s", name, said[name])
		case passed[name] && expected:
			t.Errorf("%s is stated to fail (%s), but does not", name, why)
		}
	}
}

// withoutTests returns a build overlay that removes the tests of the package in a directory, except
// export_test.go. Compiling and linking these tests would take longer than client-go's tests run.
func withoutTests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	check.NoError(t, err)
	replace := map[string]string{}
	for _, file := range files {
		if filepath.Base(file) != "export_test.go" {
			replace[file] = ""
		}
	}
	return replace
}

// goList returns the directory of a package or, with -m, of a module.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", "{{.Dir}}"}, args...)...).Output()
	check.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// outsideTests reads a file of client-go's tests. It returns the text of a file for the external
// test package of Weir's clientgo, without the tests that use internals. names are the names of the
// tests of shared informers in that text.
func outsideTests(t *testing.T, source string) (text []byte, names []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, source, nil, 0)
	check.NoError(t, err)
	file.Name.Name = "clientgo_test"
	dropInternals(file)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if body, ok := hooks[f.Name.Name]; ok {
			f.Body = bodyOf(t, body)
		}
		if strings.HasPrefix(f.Name.Name, "Test") && uses(f, []string{"NewSharedInformer"}) {
			names = append(names, f.Name.Name)
			if !uses(f, global) {
				f.Body.List = slices.Concat(bodyOf(t, "t.Parallel()").List, f.Body.List)
			}
		}
	}
	dropImports(file)
	var b bytes.Buffer
	check.NoError(t, format.Node(&b, files, file))
	code := b.String()
	code = strings.ReplaceAll(code, ".(*sharedIndexInformer)", "")
	code = strings.ReplaceAll(code, " NewSharedInformer(", " clientgo.NewTestInformer(")
	if len(names) > 0 {
		code = strings.Replace(code, "import (", "import (\n\t. \"k8s.io/client-go/tools/cache\"\n\t\"github.com/weirproject/weir/clientgo\"\n", 1)
	}
	return []byte(code), names
}

// dropInternals removes the functions that use internals. It then removes the functions that use a
// removed function, until no such function is left.
func dropInternals(file *ast.File) {
	private := slices.Clone(internals)
	for before := 0; before != len(private); {
		before = len(private)
		file.Decls = slices.DeleteFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			if !ok || hooks[f.Name.Name] != "" || !uses(f, private) {
				return false
			}
			private = append(private, f.Name.Name)
			return true
		})
	}
}

func dropImports(file *ast.File) {
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, d := range file.Decls {
		imports, ok := d.(*ast.GenDecl)
		if !ok || imports.Tok != token.IMPORT {
			continue
		}
		imports.Specs = slices.DeleteFunc(imports.Specs, func(s ast.Spec) bool {
			spec := s.(*ast.ImportSpec)
			name := strings.Trim(spec.Path.Value, `"`)
			name = strings.TrimSuffix(name, "/v2")
			name = name[strings.LastIndexByte(name, '/')+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			return !used[name]
		})
	}
}

// uses reports whether a function uses one of the names.
func uses(f *ast.FuncDecl, names []string) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && slices.Contains(names, id.Name) {
			found = true
		}
		return !found
	})
	return found
}

func bodyOf(t *testing.T, code string) *ast.BlockStmt {
	t.Helper()
	e, err := parser.ParseExpr("func() { " + code + " }")
	check.NoError(t, err)
	return e.(*ast.FuncLit).Body
}

// results parses the output of go test -json. It returns the tests that passed, and the output of
// each test. The key "" has the output that belongs to no test.
func results(t *testing.T, out []byte) (passed map[string]bool, said map[string]string) {
	t.Helper()
	passed, said = map[string]bool{}, map[string]string{}
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			said[""] += string(line)
			continue
		}
		test, _, sub := strings.Cut(e.Test, "/")
		said[test] += e.Output
		if e.Action == "pass" && !sub && test != "" {
			passed[test] = true
		}
	}
	return passed, said
}
