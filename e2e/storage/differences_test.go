package storage

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// difference is an intended difference between the watch cache and kube-apiserver's cache. The
// sub-tests in failing must fail, each with the error in complain. The rest of the suite must pass.
type difference struct {
	reason   string
	failing  []string // sub-tests
	complain string   // the only error of each failing sub-test
}

// differences are the suites with failing sub-tests, by name.
var differences = map[string]difference{
	"RunTestList": {
		reason: "kube-apiserver ends a full page with a continue token whenever there are more objects, and answers it with an empty list if none of " +
			"them is selected. The watch cache looks whether one is, and spares the client that request.",
		failing: []string{
			"test_List_with_filter_returning_only_one_item,_ensure_only_a_single_page_returned",
			"test_List_with_filter_returning_only_one_item,_ensure_only_a_single_page_returned_with_current_resource_version_and_match=NotOlderThan",
			"test_List_with_filter_returning_two_items,_more_pages_possible",
			"test_List_with_filter_returning_two_items,_more_pages_possible_with_current_resource_version_and_match=NotOlderThan",
		},
		complain: `unexpected continue token: ""`,
	},
}

// childVariable is an environment variable. If it is set, TestSuites runs suites with differences
// directly, so that they fail.
const childVariable = "WEIR_STORAGE_TEST_CHILD"

func inChild() bool { return os.Getenv(childVariable) != "" }

// check runs the suite of test t in a child process, and compares the failures with d. It uses a
// child process because a failing sub-test in this process would make t fail.
func (d difference) check(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+pattern, "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	failed, complaints := failures(t.Name(), out)
	if !slices.Equal(failed, d.failing) {
		t.Errorf("of the differences (%s)\nthere are %q\nnot       %q\n%s", d.reason, failed, d.failing, out)
	}
	for _, c := range complaints {
		check.Equal(t, c, d.complain, "the suite complains otherwise")
	}
	if len(complaints) != len(failed) {
		t.Errorf("%d complaints of %d failing sub-tests", len(complaints), len(failed))
	}
}

var (
	failLine = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+) `)
	// If upstream skips a sub-test for caches, the line has no text and does not match.
	complaintLine = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.+)$`)
)

// failures parses the output of a test. It returns the sorted names of the failed sub-tests, and
// their errors.
func failures(test string, out []byte) (failed, complaints []string) {
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		if name, ok := bytes.CutPrefix(m[1], []byte(test+"/")); ok {
			failed = append(failed, string(name))
		}
	}
	for _, m := range complaintLine.FindAllSubmatch(out, -1) {
		complaints = append(complaints, string(m[1]))
	}
	slices.Sort(failed)
	return failed, complaints
}

// etcdsWays is a world for RunTestListInconsistentContinuation, which kube-apiserver runs only on
// its etcd store, not on its cache. The suite requests a page at resourceVersion 0. For such a
// request, the watch cache and kube-apiserver's cache ignore the limit. The suite also writes a pod
// whose namespace differs from the namespace in its key. An API server never does that, and the
// watch cache derives the key from the object.
type etcdsWays struct{ *world }

// GetList replaces resourceVersion 0 by a consistent LIST.
func (e etcdsWays) GetList(ctx context.Context, key string, opts apistorage.ListOptions, out runtime.Object) error {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	return e.world.GetList(ctx, key, opts, out)
}

// GuaranteedUpdate sets the object's namespace to the namespace in the key.
func (e etcdsWays) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc, _ runtime.Object) error {
	namespace, _ := e.split(key)
	inNamespace := func(in runtime.Object, res apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
		object, ttl, err := update(in, res)
		if err != nil {
			return nil, nil, err
		}
		object = object.DeepCopyObject()
		m, err := meta.Accessor(object)
		if err != nil {
			return nil, nil, err
		}
		m.SetNamespace(namespace)
		return object, ttl, nil
	}
	return e.world.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, inNamespace, nil)
}

const (
	onWrites     = "about writes, which are kube-apiserver's own here"
	onEncryption = "about how etcd's values are encrypted and decoded, of which the cache sees nothing"
)

// leftOut are the suites that are not run, with the reasons.
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

// TestEverySuiteIsRunOrLeftOut checks that each suite of upstream is either run or left out. It
// also checks that each suite named in this package exists upstream.
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

// upstreamSuites returns the names of upstream's suites. These are the functions with a test
// parameter whose names start with Run.
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

// takesTest reports whether a function has a parameter of type *testing.T or testing.TB. Benchmarks
// have a *testing.B.
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
