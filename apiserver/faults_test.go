package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestFaultAnswers(t *testing.T) {
	faults := &apiserver.Faults{}
	withTestServer(t, apiserver.Options{Faults: faults}, func(t *testing.T, ts *testServer) {
		faults.Add(apiserver.Rule{Match: apiserver.Match("list", "configmaps"), Times: 2, Err: apierrors.NewTooManyRequests("slow down", 7)})
		remove := faults.Add(apiserver.Rule{Match: apiserver.Match("", "secrets"), Err: errors.New("broken")})
		for range 2 {
			a := ts.get(configMaps, nil)
			if a.code != 429 || a.header.Get("Retry-After") != "7" || a.status(t).Details.RetryAfterSeconds != 7 {
				t.Errorf("answered %d: %s", a.code, a.body)
			}
			if a := ts.get("/api/v1/pods", nil); a.code != 200 {
				t.Errorf("pods: %d", a.code)
			}
		}
		if a := ts.get(configMaps, nil); a.code != 200 {
			t.Errorf("the third time: %d", a.code)
		}
		for range 3 {
			if a := ts.do(http.MethodDelete, "/api/v1/namespaces/default/secrets", nil); a.code != 500 {
				t.Errorf("secrets: %d", a.code)
			}
		}
		remove()
		if a := ts.get("/api/v1/secrets", nil); a.code != 200 {
			t.Errorf("secrets: %d", a.code)
		}
	})
}

func TestFaultCuts(t *testing.T) {
	faults := &apiserver.Faults{}
	withTestServer(t, apiserver.Options{Pods: 100, Faults: faults}, func(t *testing.T, ts *testServer) {
		for _, cleanly := range []bool{false, true} {
			faults.Add(apiserver.Rule{Match: apiserver.Match("list", "pods"), Times: 1, Cut: new(int64(300_000)), CutCleanly: cleanly})
			res, err := ts.transport.RoundTrip(objectPath(t, ts, "/api/v1/pods"))
			check.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if len(body) != 300_000 || (err == nil) != cleanly {
				t.Errorf("cleanly=%v: %d bytes, %v", cleanly, len(body), err)
			}
		}
		// Cut two responses before the first byte of the body: the first with a clean end, the second
		// with a closed connection.
		faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "pods"), Times: 1, Cut: new(int64(0)), CutCleanly: true})
		w := ts.watch("/api/v1/pods?watch=1")
		defer w.close()
		check.Equal(t, w.next(), "EOF")
		faults.Add(apiserver.Rule{Match: apiserver.Match("get", ""), Times: 1, Cut: new(int64(0))})
		res, err := ts.transport.RoundTrip(objectPath(t, ts, "/api/v1/namespaces/default"))
		if err == nil {
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if err == nil {
			t.Error("no error from a connection that broke")
		}
	})
}

func objectPath(t *testing.T, ts *testServer, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, ts.config.Host+path, nil)
	check.NoError(t, err)
	return r
}

func TestFaultHolds(t *testing.T) {
	faults := &apiserver.Faults{}
	withTestServer(t, apiserver.Options{Faults: faults}, func(t *testing.T, ts *testServer) {
		began := time.Now()
		hold := make(chan struct{})
		faults.Add(apiserver.Rule{Match: apiserver.Match("get", "namespaces"), Times: 1, Hold: hold})
		go func() {
			time.Sleep(time.Hour) // in the bubble's time
			close(hold)
		}()
		if a := ts.get("/api/v1/namespaces/default", nil); a.code != 200 || time.Since(began) != time.Hour {
			t.Errorf("%d after %v", a.code, time.Since(began))
		}
		faults.Add(apiserver.Rule{Match: apiserver.Match("get", "namespaces"), Hold: make(chan struct{})})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := ts.typed.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
			t.Error("not held")
		}
		done := make(chan answer)
		go func() { done <- ts.get("/api/v1/namespaces/default", nil) }()
		synctest.Wait()
		if err := ts.server.Close(); err != nil { // ends held responses
			t.Error(err)
		}
		if a := <-done; a.code != 503 {
			t.Errorf("answered %d", a.code)
		}
	})
}

// TestFaultHoldsForSeveralServers checks that responses that one server holds are not released when
// another server closes, or when New of another server fails.
func TestFaultHoldsForSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := &apiserver.Faults{}
		if _, err := apiserver.New(apiserver.Options{Faults: faults, Population: "of no kind"}); err == nil {
			t.Fatal("a server of an unknown population")
		}
		first, second := startTestServer(t, apiserver.Options{Faults: faults}), startTestServer(t, apiserver.Options{Faults: faults})
		defer second.close()
		hold := make(chan struct{})
		faults.Add(apiserver.Rule{Match: apiserver.Match("get", "namespaces"), Hold: hold})
		answers := make(chan answer, 2)
		get := func() { answers <- second.get("/api/v1/namespaces/default", nil) }
		go get()
		synctest.Wait()
		first.close()
		go get()
		synctest.Wait()
		if n := len(answers); n > 0 {
			t.Errorf("%d of 2 requests were not held", n)
		}
		close(hold)
		for range 2 {
			if a := <-answers; a.code != http.StatusOK {
				t.Errorf("answered %d", a.code)
			}
		}
	})
}

// TestFaultBookmarks checks both effects of Faults.Bookmarks: the server never sends the bookmark
// that ends the initial events, or sends it late.
func TestFaultBookmarks(t *testing.T) {
	const path = configMaps + "?watch=1&timeoutSeconds=300&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	faults := &apiserver.Faults{}
	withTestServer(t, apiserver.Options{Faults: faults}, func(t *testing.T, ts *testServer) {
		ts.configMap("a", nil)
		began := time.Now()
		faults.Bookmarks(20*time.Second, false)
		w := ts.watch(path)
		events := w.until(func(e string) bool { return strings.Contains(e, " end@") })
		if len(events) != 2 || time.Since(began) != 20*time.Second {
			t.Errorf("%v after %v", events, time.Since(began))
		}
		w.close()
		faults.Bookmarks(0, true)
		w = ts.watch(path)
		defer w.close()
		if events := w.until(func(string) bool { return false }); len(events) != 2 || events[1] != "EOF" {
			t.Errorf("%v", events)
		}
	})
}

// TestFaultWatchBuffer checks a watch whose client does not read, during and after the initial
// state. If more changes wait than the buffer limit, the server must close the watch. Without a
// limit, the watch must receive all changes.
func TestFaultWatchBuffer(t *testing.T) {
	const (
		path    = "/api/v1/configmaps?watch=1&timeoutSeconds=300&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		buffer  = 10
		objects = 40
	)
	// The objects are so large that the connection cannot buffer all of them.
	large := map[string]string{"filling": strings.Repeat("x", 256<<10)}
	for _, when := range []string{"initial", "behind"} {
		for _, limit := range []int{buffer, 0} {
			t.Run(fmt.Sprintf("%s/%d", when, limit), func(t *testing.T) {
				faults := &apiserver.Faults{}
				withTestServer(t, apiserver.Options{Faults: faults}, func(t *testing.T, ts *testServer) {
					ts.filled("a", objects, large)
					faults.WatchBuffer(limit)
					w := ts.watch(path)
					defer w.close()
					ended := func(e string) bool { return strings.Contains(e, " end@") }
					if when == "behind" {
						w.until(ended)
					}
					ts.filled("b", objects, large)
					synctest.Wait()
					last := fmt.Sprintf(" b%02d@", objects-1)
					events := w.until(func(e string) bool { return strings.Contains(e, last) })
					if through := strings.Contains(events[len(events)-1], last); through != (limit == 0) {
						t.Errorf("after %d events: %s", len(events), events[len(events)-1])
					}
					if when == "initial" && slices.ContainsFunc(events, ended) != (limit == 0) {
						t.Errorf("the initial events have ended, or not: %d events", len(events))
					}
				})
			})
		}
	}
}

func (ts *testServer) filled(prefix string, n int, data map[string]string) {
	ts.t.Helper()
	for i := range n {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%02d", prefix, i)}, Data: data}
		if _, err := ts.typed.CoreV1().ConfigMaps("default").Create(context.Background(), cm, metav1.CreateOptions{}); err != nil {
			ts.t.Fatal(err)
		}
	}
}
