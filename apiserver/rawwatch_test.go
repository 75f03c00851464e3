package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// rawWatch is a WATCH whose response the test decodes itself.
type rawWatch struct {
	t      *testing.T
	code   int
	header http.Header
	body   io.ReadCloser
	events *wire.WatchReader
	enc    wire.Encoding
	cancel context.CancelFunc
}

// watch starts a WATCH. header alternates names and values.
func (ts *testServer) watch(path string, header ...string) *rawWatch {
	ts.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	res := ts.send(ctx, http.MethodGet, path, nil, header)
	w := &rawWatch{t: ts.t, code: res.StatusCode, header: res.Header, body: res.Body, cancel: cancel}
	var err error
	if w.enc, err = wire.EncodingOf(res.Header.Get("Content-Type")); err != nil {
		ts.t.Fatal(err)
	}
	body, err := wire.NewBody(res.Body, res.Header.Get("Content-Encoding"))
	check.NoError(ts.t, err)
	w.events = wire.NewWatchReader(body, w.enc, wire.Limits{})
	return w
}

func (w *rawWatch) close() {
	w.cancel()
	_ = w.body.Close()
}

// next describes the next event: its type, the object's name and resourceVersion, and, for a
// bookmark, whether it ends the initial events. It returns "EOF" at the end.
func (w *rawWatch) next() string {
	w.t.Helper()
	e, err := w.events.Next()
	if errors.Is(err, io.EOF) {
		return "EOF"
	}
	check.NoError(w.t, err)
	if e.Type == wire.Error {
		var status apierrors.APIStatus
		if err := wire.DecodeStatus(w.enc, e.Object); !errors.As(err, &status) {
			w.t.Fatalf("no Status in an ERROR event: %v", err)
		}
		return fmt.Sprintf("ERROR %d %s", status.Status().Code, status.Status().Reason)
	}
	var m wire.Meta
	check.NoError(w.t, wire.ReadMeta(w.enc, e.Object, &m))
	out := e.Type.String()
	if len(m.Name) > 0 {
		out += " " + string(m.Name)
	}
	if m.InitialEventsEnd() {
		out += " end"
	}
	return out + "@" + string(m.ResourceVersion)
}

// until returns events up to and including the first event for which stop returns true.
func (w *rawWatch) until(stop func(string) bool) (events []string) {
	w.t.Helper()
	for {
		e := w.next()
		events = append(events, e)
		if e == "EOF" || strings.HasPrefix(e, "ERROR") || stop(e) {
			return events
		}
	}
}

// TestWatchLargeObject checks that a WATCH from the resourceVersion of a large object does not send
// this object again. The test uses a large object because the store makes large objects visible
// immediately, and other objects only when the server flushes them.
func TestWatchLargeObject(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"x": strings.Repeat("x", 300<<10)}}
		made, err := ts.typed.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
		check.NoError(t, err)
		w := ts.watch(configMaps + "?watch=true&timeoutSeconds=5&resourceVersion=" + made.ResourceVersion)
		defer w.cancel()
		small := ts.configMap("small", nil)
		if got := w.next(); got != "ADDED small@"+small {
			t.Error(got)
		}
	})
}

// TestGetIsNoWatch checks that the server ignores watch=true if the path names one object, as
// kube-apiserver does.
func TestGetIsNoWatch(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ts.configMap("a", nil)
		var object corev1.ConfigMap
		if got := ts.get(configMaps+"/a?watch=true&timeoutSeconds=1", &object); got.code != http.StatusOK || object.Name != "a" {
			t.Errorf("%d %s", got.code, got.body)
		}
	})
}
