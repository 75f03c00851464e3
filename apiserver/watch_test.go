package apiserver_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestWatchSemantics has a case for each row of the WATCH table in Kubernetes' documentation of
// resourceVersions. The objects are those of listSemantics. After the watch has started, the test
// creates d, at resourceVersion {d}.
func TestWatchSemantics(t *testing.T) {
	const initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
	for _, tt := range []struct {
		name, query string
		code        int // of the response; 0 means 200
		want        string
	}{
		{"unset, empty", "", 0, "ADDED a@{a} ADDED b@{b2} ADDED d@{d}"},
		{"unset, 0", "resourceVersion=0", 0, "ADDED a@{a} ADDED b@{b2} ADDED d@{d}"},
		{"unset, N", "resourceVersion={a}", 0, "ADDED b@{b} ADDED c@{c} MODIFIED b@{b2} DELETED c@{end} ADDED d@{d}"},
		{"unset, now", "resourceVersion={end}", 0, "ADDED d@{d}"},
		{"unset, too old", "resourceVersion=7", 0, "ERROR 410 Expired"},
		{"initial events, empty", initial + "allowWatchBookmarks=true", 0, "ADDED a@{a} ADDED b@{b2} BOOKMARK end@{end} ADDED d@{d}"},
		{"initial events, 0", initial + "resourceVersion=0&allowWatchBookmarks=true", 0,
			"ADDED a@{a} ADDED b@{b2} BOOKMARK end@{end} ADDED d@{d}"},
		{"initial events, N", initial + "resourceVersion={b}&allowWatchBookmarks=true", 0,
			"ADDED a@{a} ADDED b@{b2} BOOKMARK end@{end} ADDED d@{d}"},
		{"initial events, no bookmarks", initial, 0, "ADDED a@{a} ADDED b@{b2} ADDED d@{d}"},
		{"initial events, N from the future", initial + "resourceVersion=999999&allowWatchBookmarks=true", 0, "ERROR 504 Timeout"},
		{"no initial events, N", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={c}", 0,
			"MODIFIED b@{b2} DELETED c@{end} ADDED d@{d}"},
		{"no initial events, empty", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", 0, "ADDED d@{d}"},
		{"no initial events, 0", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0", 0, "ADDED d@{d}"},
		{"N from the future waits", "resourceVersion={d}", 0, "ADDED e@{e}"},
		{"sendInitialEvents without match", "sendInitialEvents=true", 422, ""},
		{"sendInitialEvents with Exact", "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion={a}", 422, ""},
		{"match alone", "resourceVersionMatch=NotOlderThan&resourceVersion={a}", 422, ""},
		{"a resourceVersion that is no number", "resourceVersion=abc", 400, ""},
		{"an unknown field", "fieldSelector=data.x%3D1", 400, ""},
		{"labels: c goes, b comes", "resourceVersion={b}&labelSelector=colour", 0, "ADDED c@{c} ADDED b@{b2} DELETED c@{end} ADDED d@{d}"},
		{"labels: the state", "labelSelector=colour%3Dblue", 0, "ADDED b@{b2} ADDED d@{d}"},
		{"one name", "fieldSelector=metadata.name%3Db&resourceVersion={a}", 0, "ADDED b@{b} MODIFIED b@{b2} EOF"},
		{"all namespaces of the selector", "fieldSelector=metadata.namespace%3Dother", 0, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
				versions := []string{"{a}", ts.configMap("a", nil)}
				versions = append(versions, "{b}", ts.configMap("b", nil))
				versions = append(versions, "{c}", ts.configMap("c", map[string]string{"colour": "red"}))
				versions = append(versions, "{b2}", ts.relabel("b", map[string]string{"colour": "blue"}))
				versions = append(versions, "{end}", ts.remove("c"))
				now := ts.server.ResourceVersion()
				versions = append(versions, "{d}", fmt.Sprint(now+1), "{e}", fmt.Sprint(now+2))
				fill := strings.NewReplacer(versions...)

				w := ts.watch(configMaps + "?watch=1&timeoutSeconds=20&" + fill.Replace(tt.query))
				defer w.close()
				if w.code != max(tt.code, 200) {
					t.Fatalf("answered %d, want %d", w.code, tt.code)
				}
				if w.code != 200 {
					return
				}
				synctest.Wait() // the watch has started
				ts.configMap("d", map[string]string{"colour": "blue"})
				ts.configMap("e", map[string]string{"colour": "blue"})
				want := fill.Replace(tt.want)
				got := strings.Join(w.until(func(e string) bool { return strings.HasSuffix(want, e) }), " ")
				check.Equal(t, got, want)
			})
		})
	}
}

// TestWatchTransitions checks the events of objects that start or stop matching a selector. It
// reads them as whole objects and as metadata, in JSON and protobuf.
func TestWatchTransitions(t *testing.T) {
	for _, accept := range []string{
		"application/json",
		"application/vnd.kubernetes.protobuf",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	} {
		t.Run(accept, func(t *testing.T) {
			withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
				from := ts.configMap("a", nil)
				w := ts.watch(configMaps+"?watch=1&labelSelector=on%3Dyes&resourceVersion="+from, "Accept", accept)
				defer w.close()
				var want []string
				on, off := map[string]string{"on": "yes"}, map[string]string{"on": "no"}
				want = append(want, "ADDED a@"+ts.relabel("a", on))
				want = append(want, "MODIFIED a@"+ts.relabel("a", map[string]string{"on": "yes", "more": "yes"}))
				want = append(want, "DELETED a@"+ts.relabel("a", off))
				ts.relabel("a", nil)
				want = append(want, "ADDED a@"+ts.relabel("a", on))
				want = append(want, "DELETED a@"+ts.remove("a"))
				want = append(want, "ADDED a@"+ts.configMap("a", on))
				for _, e := range want {
					check.Equal(t, w.next(), e)
				}
			})
		})
	}
}

// TestWatchBookmarks checks the bookmarks of a watch: one per minute, and one two seconds before
// the end.
func TestWatchBookmarks(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		began := time.Now()
		from := ts.configMap("a", nil)
		w := ts.watch(configMaps + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=" + from)
		defer w.close()
		// A write of another resource increases the server's resourceVersion. A bookmark of the watch of
		// ConfigMaps must report it.
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
		ns, err := ts.typed.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{})
		check.NoError(t, err)
		var got []string
		for {
			e := w.next()
			if e == "EOF" {
				break
			}
			got = append(got, fmt.Sprintf("%s %v", e, time.Since(began).Round(time.Second)))
		}
		bookmark := "BOOKMARK@" + ns.ResourceVersion
		want := fmt.Sprintf("[%s 1m0s %s 2m0s %s 2m28s]", bookmark, bookmark, bookmark)
		check.Equal(t, fmt.Sprint(got), want)
		check.Equal(t, time.Since(began).Round(time.Second), 150*time.Second, "the watch lasted")
		plain := ts.watch(configMaps + "?watch=1&timeoutSeconds=150&resourceVersion=" + from)
		defer plain.close()
		check.Equal(t, plain.next(), "EOF", "not asked for")
	})
}

func TestWatchWithoutTimeoutEnds(t *testing.T) {
	withTestServer(t, apiserver.Options{MinWatch: time.Minute}, func(t *testing.T, ts *testServer) {
		began := time.Now()
		w := ts.watch(configMaps + "?watch=1")
		defer w.close()
		check.Equal(t, w.next(), "EOF")
		if d := time.Since(began); d < time.Minute || d > 2*time.Minute {
			t.Errorf("the watch lasted %v", d)
		}
	})
}

// TestWatchCompression checks that the server compresses a watch only if the client requests
// initial events and bookmarks. The server must end a gzip member at each flush.
func TestWatchCompression(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 300}, func(t *testing.T, ts *testServer) {
		w := ts.watch("/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			"Accept-Encoding", "gzip", "Accept", "application/vnd.kubernetes.protobuf")
		defer w.close()
		if w.header.Get("Content-Encoding") != "gzip" {
			t.Fatal("not compressed")
		}
		events := w.until(func(e string) bool { return strings.Contains(e, " end@") })
		if len(events) != 301 {
			t.Fatalf("%d events", len(events))
		}
		// The standard library's gzip reader also returns all events, as soon as the server has sent
		// them.
		began := time.Now()
		std := ts.watch("/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "Accept-Encoding", "gzip")
		defer std.close()
		body, err := gzip.NewReader(std.body)
		check.NoError(t, err)
		std.events = wire.NewWatchReader(body, std.enc, wire.Limits{})
		events = std.until(func(e string) bool { return strings.Contains(e, " end@") })
		if len(events) != 301 || time.Since(began) != 0 {
			t.Errorf("%d events after %v", len(events), time.Since(began))
		}
		pods, err := ts.typed.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{Limit: 1})
		check.NoError(t, err)
		pod := &pods.Items[0]
		check.NoError(t, ts.typed.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{}))
		check.Equal(t, w.next(), fmt.Sprintf("DELETED %s@%d", pod.Name, ts.server.ResourceVersion()))
		plain := ts.watch("/api/v1/pods?watch=1", "Accept-Encoding", "gzip")
		defer plain.close()
		check.Equal(t, plain.header.Get("Content-Encoding"), "", "compressed for a client that may not cope")
	})
}

// TestWatchClients checks the events of one object with every kind of client.
func TestWatchClients(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ctx := context.Background()
		gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		from := metav1.ListOptions{ResourceVersion: ts.configMap("a", nil), AllowWatchBookmarks: true}
		watches := map[string]watch.Interface{}
		for name, begin := range map[string]func() (watch.Interface, error){
			"typed":    func() (watch.Interface, error) { return ts.typed.CoreV1().ConfigMaps("").Watch(ctx, from) },
			"protobuf": func() (watch.Interface, error) { return ts.protobuf.CoreV1().ConfigMaps("default").Watch(ctx, from) },
			"dynamic":  func() (watch.Interface, error) { return ts.dynamic.Resource(gvr).Watch(ctx, from) },
			"metadata": func() (watch.Interface, error) { return ts.metadata.Resource(gvr).Watch(ctx, from) },
		} {
			w, err := begin()
			if err != nil {
				t.Fatal(name, err)
			}
			defer w.Stop()
			watches[name] = w
		}
		created := ts.configMap("b", map[string]string{"x": "y"})
		deleted := ts.remove("b")
		for name, w := range watches {
			for _, want := range []string{"ADDED b " + created, "DELETED b " + deleted} {
				e := <-w.ResultChan()
				m, ok := e.Object.(metav1.Object)
				if !ok {
					t.Fatalf("%s: %T", name, e.Object)
				}
				if got := fmt.Sprintf("%s %s %s", e.Type, m.GetName(), m.GetResourceVersion()); got != want || m.GetLabels()["x"] != "y" {
					t.Errorf("%s: got %s, want %s", name, got, want)
				}
				if kind := e.Object.GetObjectKind().GroupVersionKind().Kind; name == "dynamic" && kind != "ConfigMap" {
					t.Errorf("%s: kind %q", name, kind)
				}
			}
		}
	})
}

// TestWatchHeadersAreImmediate checks that the headers of a WATCH arrive immediately, even if there
// is no event to send.
func TestWatchHeadersAreImmediate(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		began := time.Now()
		w := ts.watch(configMaps + "?watch=1&resourceVersion=5000000")
		defer w.close()
		if time.Since(began) != 0 || w.code != 200 {
			t.Errorf("headers after %v", time.Since(began))
		}
	})
}

// TestCloseEndsWatches checks that Close returns although clients keep their connections open, and
// that the clients' watches end cleanly.
func TestCloseEndsWatches(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		idle := ts.watch(configMaps + "?watch=1")
		defer idle.close()
		future := ts.watch(configMaps + "?watch=1&resourceVersion=5000000")
		defer future.close()
		synctest.Wait()
		if err := ts.server.Close(); err != nil {
			t.Error(err)
		}
		if a, b := idle.next(), future.next(); a != "EOF" || b != "EOF" {
			t.Errorf("got %s and %s", a, b)
		}
		if a := ts.do(http.MethodGet, configMaps, nil); a.code != 503 {
			t.Errorf("a closed server answered %d", a.code)
		}
		if err := ts.server.Register(apiserver.Resource{GroupVersionResource: schema.GroupVersionResource{
			Group: "g", Version: "v1", Resource: "things"}, Kind: "Thing"}); !errors.Is(err, apiserver.ErrClosed) {
			t.Errorf("Register: %v", err)
		}
	})
}

// TestOldWatchPaths checks that /watch/ in the path has the same effect as watch=true.
func TestOldWatchPaths(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		a := ts.configMap("a", nil)
		ts.configMap("b", nil)
		one := ts.watch("/api/v1/watch/namespaces/default/configmaps/a")
		defer one.close()
		if e := one.next(); e != "ADDED a@"+a {
			t.Error(e)
		}
		all := ts.watch("/api/v1/watch/configmaps")
		defer all.close()
		if e := all.next(); e != "ADDED a@"+a {
			t.Error(e)
		}
	})
}

// TestWatchIsNDJSON checks that each line of a WATCH in JSON is one event.
func TestWatchIsNDJSON(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ts.configMap("a", nil)
		ts.configMap("b", nil)
		res := ts.watch(configMaps + "?watch=1")
		defer res.close()
		lines := bufio.NewScanner(res.body)
		for range 2 {
			if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"`) {
				t.Errorf("line %q, %v", lines.Text(), lines.Err())
			}
		}
	})
}
