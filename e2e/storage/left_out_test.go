package storage

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

const (
	onWrites     = "about writes, which are kube-apiserver's own here"
	onEncryption = "about how etcd's values are encrypted and decoded, of which the cache sees nothing"
)

// leftOut are the suites that are not run, with the reason.
var leftOut = map[string]string{
	"RunTestCreate":                                     onWrites,
	"RunTestCreateWithTTL":                              onWrites,
	"RunTestCreateWithKeyExist":                         onWrites,
	"RunTestUnconditionalDelete":                        onWrites,
	"RunTestConditionalDelete":                          onWrites,
	"RunTestDeleteWithSuggestion":                       onWrites,
	"RunTestDeleteWithSuggestionAndConflict":            onWrites,
	"RunTestDeleteWithConflict":                         onWrites,
	"RunTestDeleteWithSuggestionOfDeletedObject":        onWrites,
	"RunTestValidateDeletionWithSuggestion":             onWrites,
	"RunTestValidateDeletionWithOnlySuggestionValid":    onWrites,
	"RunTestPreconditionalDeleteWithSuggestion":         onWrites,
	"RunTestPreconditionalDeleteWithOnlySuggestionPass": onWrites,
	"RunTestGuaranteedUpdate":                           onWrites,
	"RunTestGuaranteedUpdateWithTTL":                    onWrites,
	"RunTestGuaranteedUpdateChecksStoredData":           onWrites,
	"RunTestGuaranteedUpdateWithConflict":               onWrites,
	"RunTestGuaranteedUpdateWithSuggestionAndConflict":  onWrites,

	"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError":   onEncryption,
	"RunTestDeleteExpectedTransformOrDecodeError":                         onEncryption,
	"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": onEncryption,
	"RunTestGetListWithErrorAggregation":                                  onEncryption,
	"RunTestGetListWithoutErrorAggregation":                               onEncryption,
	"RunTestTransformationFailure":                                        onEncryption,
	"RunTestWatchError":                                                   onEncryption,
	"RunTestWatchWithUnsafeDelete":                                        onEncryption,
	"RunWatchErrorIsBlockingFurtherEvents":                                onEncryption,
	"RunTestListResourceVersionMatch": "it writes an object whenever a value of etcd is decrypted, to have LISTs of etcd disturbed half-way; what " +
		"feeds the cache would decrypt that one, too, and never come to an end",

	"RunTestKeySchema":              "about which keys are refused: a client of the watch cache sends none, the path of a request has a namespace and a name",
	"RunTestStats":                  "about the sizes of values in etcd",
	"RunOptionalTestProgressNotify": "about etcd's progress events, which are for caches alone: the feed of this one lives by them",
}

const upstreamPackage = "k8s.io/apiserver/pkg/storage/testing"

// TestEverySuiteIsRunOrLeftOut fails when upstream has a suite that is neither run nor left out, or
// not any more one that is.
func TestEverySuiteIsRunOrLeftOut(t *testing.T) {
	known := map[string]bool{}
	for _, s := range suites {
		known[s.name] = true
	}
	for name := range leftOut {
		if known[name] {
			t.Errorf("%s is run and left out", name)
		}
		known[name] = true
	}
	for name := range differences {
		if !known[name] || leftOut[name] != "" {
			t.Errorf("%s has differences and is not run", name)
		}
	}
	there := upstreamSuites(t)
	for name := range there {
		if !known[name] {
			t.Errorf("%s is neither run nor left out", name)
		}
	}
	for name := range known {
		if !there[name] {
			t.Errorf("upstream has no %s", name)
		}
	}
}

// upstreamSuites returns the names of upstream's suites: functions that start with Run and take a
// test.
func upstreamSuites(t *testing.T) map[string]bool {
	t.Helper()
	dir, err := cluster.GoCommand(t.Context(), "", "list", "-f", "{{.Dir}}", upstreamPackage)
	check.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files (%v)", dir, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		check.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") && takesTest(f) {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// takesTest reports whether a function has a *testing.T or a testing.TB; benchmarks have a
// *testing.B.
func takesTest(f *ast.FuncDecl) bool {
	for _, p := range f.Type.Params.List {
		typ := p.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		sel, ok := typ.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "testing" && (sel.Sel.Name == "T" || sel.Sel.Name == "TB") {
			return true
		}
	}
	return false
}
