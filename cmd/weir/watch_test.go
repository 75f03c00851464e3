package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/command"
)

// gadgets are the answers, by path, of a server with one resource. Some of its objects cannot be
// read. The server does not support aggregated discovery.
var gadgets = map[string]string{
	"/api": `{"kind":"APIVersions","versions":[]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.com",` +
		`"versions":[{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}]}`,
	"/apis/example.com/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1",` +
		`"resources":[{"name":"gadgets","singularName":"gadget","namespaced":true,"kind":"Gadget","verbs":["get","list","watch"]}]}`,
	"/apis/example.com/v1/gadgets": `{"kind":"GadgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"9"},"items":[` +
		`{"metadata":{"name":"a","namespace":"shop","resourceVersion":"3"}},` +
		`{"metadata":{"namespace":"shop","resourceVersion":"4"}},{"metadata":{"namespace":"shop","resourceVersion":"5"}},` +
		`{"metadata":{"name":"c","namespace":"shop","resourceVersion":"6"}}]}`,
}

// serveAnswers starts a server that looks up the answer to a request by the request's path. It
// holds a WATCH open, and refuses initial events. If the answer is empty, the server answers 503.
func serveAnswers(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		switch watch := r.URL.Query(); {
		case !ok:
			http.NotFound(w, r)
		case answer == "":
			http.Error(w, "no server", http.StatusServiceUnavailable)
		case watch.Has("sendInitialEvents"):
			http.Error(w, "sendInitialEvents: forbidden", http.StatusUnprocessableEntity)
		case watch.Has("watch"):
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// execute runs the command until it ends, and returns its exit code and output.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	code = command.Report(&errs, root.ExecuteContext(t.Context()))
	return code, out.String(), errs.String()
}

// TestUnreadable checks that the command leaves out objects that it cannot read, and reports that
// once.
func TestUnreadable(t *testing.T) {
	server := serveAnswers(t, gadgets)
	code, stdout, stderr := execute(t, "watch", "gadgets", "-A", "--once", "-o", "name", "-s", server.URL)
	if code != 0 || stdout != "gadget.example.com/a\ngadget.example.com/c\n" {
		t.Errorf("code %d, %q", code, stdout)
	}
	if !strings.HasPrefix(stderr, "2 objects cannot be read: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("it says %q", stderr)
	}
}

// TestUnknownResource checks that the error names the resource that the server lacks, even if some
// groups did not answer.
func TestUnknownResource(t *testing.T) {
	answers := maps.Clone(gadgets)
	answers["/apis"] = strings.Replace(answers["/apis"], `"groups":[`, `"groups":[{"name":"broken.com",`+
		`"versions":[{"groupVersion":"broken.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"broken.com/v1","version":"v1"}},`, 1)
	answers["/apis/broken.com/v1"] = ""
	server := serveAnswers(t, answers)
	const want = `error: the server has no such resource: "cogs"; the server did not report all resources: broken.com/v1: `
	if code, _, stderr := execute(t, "watch", "cogs", "-s", server.URL); code != 1 || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d, %q; want %q", code, stderr, want)
	}
}

// errFull is the error of a write to a full disk.
var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestFullDisk checks that the command ends if it cannot write its output. The command must return
// the reason as its error, and must not print the reason too.
func TestFullDisk(t *testing.T) {
	server := startServer(t, 50)
	for _, args := range [][]string{
		{"pods"}, {"pods,widgets"}, {"pods", "--diff"}, {"pods", "-o", "json"}, {"pods", "-o", "name"}, {"pods", "--once"},
	} {
		stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr")) // several goroutines write to it
		check.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		root := newRoot()
		root.SetArgs(append([]string{"watch", "-A", "-s", server.URL()}, args...))
		root.SetOut(fullDisk{})
		root.SetErr(stderr)
		ended := root.ExecuteContext(ctx)
		cancel()
		stderr.Close()
		said, err := os.ReadFile(stderr.Name())
		check.NoError(t, err)
		if !errors.Is(ended, errFull) || strings.Contains(string(said), errFull.Error()) {
			t.Errorf("%v: %v, after %s", args, ended, said)
		}
	}
}
