package storage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// difference is an intended difference between the watch cache and kube-apiserver's cache. The
// sub-tests must fail, each with this one error, and the rest of the suite must pass.
type difference struct {
	reason   string
	failing  []string // sub-tests
	complain string   // all that they complain of
}

// differences are the suites that fail in part.
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

// childVariable, in the environment, makes the test program run a suite with differences unchanged.
const childVariable = "WEIR_STORAGE_TEST_CHILD"

func inChild() bool { return os.Getenv(childVariable) != "" }

// check runs the suite of test t in a child process, because a test cannot fail without its parent,
// and compares the failures.
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
	// A complaint that upstream leaves a sub-test out for caches is empty.
	complaintLine = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.+)$`)
)

// failures reads from the output of a test, which has failed in part, the sub-tests that did and
// what was complained of.
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
