package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

const (
	consistentList  = "/api/v1/pods"
	plainWatch      = "/api/v1/pods?watch=true&timeoutSeconds=1"
	consistentWatch = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)

// label changes a pod at the upstream, and returns what a consistent read has from then on.
func (u *fakeUpstream) label(n int) string {
	u.t.Helper()
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		u.t.Fatal(err)
	}
	list, err := client.CoreV1().Pods("").List(u.t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		u.t.Fatal(err)
	}
	pod, mark := &list.Items[0], fmt.Sprintf("mark-%d-", n)
	pod.Labels["mark"] = mark + "x"
	if _, err := client.CoreV1().Pods(pod.Namespace).Update(u.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	return mark
}

// namespace makes a namespace at the upstream: its newest resourceVersion is not the pods' own any
// more.
func (u *fakeUpstream) namespace(name string) {
	u.t.Helper()
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		u.t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(u.t.Context(), ns, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// TestProven: reads of the current state are answered from here and have every write that was
// through before them, where pods change and where only others do.
func TestProven(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, provable)
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: patient()})
	tp.ready()
	for n, path := range []string{consistentList, consistentWatch, plainWatch, consistentList + "?limit=150"} {
		mark := u.label(n)
		u.namespace(fmt.Sprintf("other-%d", n))
		get := tp.get
		if path == consistentWatch {
			get = tp.initial
		}
		code, body := get("jane", path)
		if code != http.StatusOK || strings.Count(body, mark) != 1 {
			t.Errorf("%s: answered %d, and tells %d times of what was written before", path, code, strings.Count(body, mark))
		}
		if passed := u.forwarded(consistentList); len(passed) > 0 {
			t.Errorf("%s: %d upstream", path, len(passed))
		}
	}
	sess := tp.resource("pods").ready.Load()
	if sess.freshness.queries.Load() == 0 || sess.freshness.watches.Load() == 0 {
		t.Errorf("%d questions and %d watches upstream", sess.freshness.queries.Load(), sess.freshness.watches.Load())
	}
}

// TestProvenTogether: those who come while nobody has been answered share questions and watches.
func TestProvenTogether(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, provable)
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: patient()})
	tp.ready()
	u.namespace("other")
	release := make(chan struct{})
	u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "pods"), Times: 1, Hold: release})
	var all sync.WaitGroup
	began := time.Now()
	sess := tp.resource("pods").ready.Load()
	get := func() {
		if code, _ := tp.get("jane", consistentList); code != http.StatusOK {
			t.Error(code)
		}
	}
	all.Go(get) // whose question the others have missed
	tp.until("it is asked", func() bool { return sess.freshness.queries.Load() == 1 })
	for range 20 {
		all.Go(get)
	}
	tp.until("all wait", func() bool { return tp.waiting() >= 21 })
	close(release)
	all.Wait()
	// Some of the 20 may get to ask only after the second question was sent, and on a busy machine
	// some a second later.
	took := time.Since(began)
	if asked := sess.freshness.queries.Load(); asked < 2 || asked > 3+uint64(took/time.Second) {
		t.Errorf("%d questions upstream within %v", asked, took)
	}
	if forwarded := len(u.forwarded(consistentList)); forwarded > 0 {
		t.Errorf("%d reads forwarded", forwarded)
	}
}

// clockedSource answers queries for the newest resourceVersion with 2, and notes when they came.
type clockedSource struct {
	source.Source
	began time.Time
	asked []time.Duration
}

func (s *clockedSource) NewestVersion(context.Context, string) (string, error) {
	s.asked = append(s.asked, time.Since(s.began).Round(time.Millisecond))
	return "2", nil
}

// TestQueriesArePaced: who reads a moment after another is not put off, and many who come one after
// another cost the upstream one query a second.
func TestQueriesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &clockedSource{began: time.Now()}
		ts := newTestSink(t, 0)
		ts.Progress("2")
		ts.Flush()
		ctx, cancel := context.WithCancel(t.Context())
		p := newFreshnessProver(ctx, []source.Source{src}, ts.storeSink, func() reflector.Status { return reflector.Status{Phase: reflector.Watching} }, defaultTimeouts.proof)
		defer p.close()
		defer cancel()
		var readers sync.WaitGroup
		for range 30 {
			readers.Go(func() {
				if !p.proveCurrent(ctx) {
					t.Error("not proven")
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		readers.Wait()
		want := []time.Duration{0, 100 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second}
		if !slices.Equal(src.asked, want) {
			t.Errorf("asked at %v, want %v", src.asked, want)
		}
	})
}

// TestNotProven: what cannot be proven, or is not worth it, goes upstream.
func TestNotProven(t *testing.T) {
	for name, tt := range map[string]struct {
		pods    int
		options Options
		path    string
		fault   func(u *fakeUpstream)
	}{
		"one object":          {pods: 2 * minProofObjects, path: "/api/v1/namespaces/team-00000/pods/x"},
		"of cached ones, too": {pods: 3, path: "/api/v1/namespaces/team-00000/pods/x", options: Options{Cached: []string{"pods"}}},
		"a few":               {pods: 2 * minProofObjects, path: consistentList + "?limit=1"},
		"of a few":            {pods: 3, path: consistentList},
		"not wanted":          {pods: 2 * minProofObjects, path: consistentList, options: Options{ForwardConsistent: true}},
		"refused": {pods: 2 * minProofObjects, path: consistentList, fault: func(u *fakeUpstream) {
			u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "pods"), Times: 1, Err: errors.New("no")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{Pods: tt.pods})
			tt.options.Resources = []string{"pods"}
			tp := startProxy(t, u, tt.options)
			tp.ready()
			if tt.fault != nil {
				tt.fault(u)
			}
			tp.get("jane", tt.path)
			if passed := u.forwarded("/api/v1"); len(passed) != 1 {
				t.Errorf("%d requests upstream", len(passed))
			}
		})
	}
}

// TestProvenWhileStalled: a copy that does not hear of a change is not current, whatever the
// upstream's bookmarks say. One that has lost touch with the upstream is not even asked about.
func TestProvenWhileStalled(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	src, err := source.New(u.config, source.Resource{GVR: corev1.SchemeGroupVersion.WithResource("pods"), Encoding: wire.JSON}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.CloseIdleConnections()
	rv, err := src.NewestVersion(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ts := newTestSink(t, 0) // which nobody feeds
	ts.Progress(rv)
	ts.Flush()
	status := reflector.Status{Phase: reflector.Watching}
	ctx, cancel := context.WithCancel(t.Context())
	p := newFreshnessProver(ctx, []source.Source{src}, ts.storeSink, func() reflector.Status { return status }, defaultTimeouts.proof)
	defer p.close()
	defer cancel()
	u.label(1)
	before := ts.version()
	for p.watches.Load() == 0 && !t.Failed() { // on a slow machine a query alone may take too long
		if p.proveCurrent(t.Context()) || ts.version() != before {
			t.Errorf("current, at %d after %d, after %d watches", ts.version(), before, p.watches.Load())
		}
	}
	p.wait(t)
	asked := p.queries.Load()
	if status.Err = errors.New("lost"); p.proveCurrent(t.Context()) || p.queries.Load() != asked {
		t.Error("asked about a copy that has lost touch")
	}
}

// wait waits until nothing is under way.
func (p *freshnessProver) wait(t *testing.T) {
	t.Helper()
	for busy := true; busy && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		busy = p.querying || p.watching
		p.mu.Unlock()
	}
}

// waiting returns how many reads are under way.
func (tp *testProxy) waiting() int { return tp.server.flowControl.readOnly.inUse() }

// resource returns a resource that the proxy caches.
func (tp *testProxy) resource(resource string) *resource {
	tp.t.Helper()
	for _, res := range tp.server.resources.all() {
		if res.gvr.Resource == resource {
			return res
		}
	}
	tp.t.Fatalf("%s are not cached", resource)
	return nil
}

// TestProve: what is proven is what the clock tells, and whoever waits for it is woken. A change
// that was proven not to be is one of another past.
func TestProve(t *testing.T) {
	ts := newTestSink(t, 0)
	waited := make(chan error, 1)
	go func() { waited <- ts.Wait(t.Context(), 9) }()
	for range 2 {
		ts.prove(9)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if ts.prove(7); ts.version() != 9 {
		t.Errorf("proven at 9, and at %d", ts.version())
	}
	if err := ts.Wait(t.Context(), 8); err != nil {
		t.Error(err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := ts.Wait(late, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for what is not there: %v", err)
	}
	if err := ts.put(wire.Modified, "a", 10, 0); err != nil || ts.version() != 10 || ts.ended != nil {
		t.Errorf("a change after it: %v, at %d, given up for %v", err, ts.version(), ts.ended)
	}
	ts.prove(20)
	if err := ts.put(wire.Modified, "a", 15, 0); !errors.Is(err, errWentBack) || !errors.Is(ts.ended, errWentBack) {
		t.Errorf("a change that was proven not to be: %v, given up for %v", err, ts.ended)
	}
}

// TestReadToBookmark: the first bookmark counts, with the last change before it.
func TestReadToBookmark(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	sess := tp.resource("pods").ready.Load()
	from := sess.sink.version()
	u.label(1)
	tp.until("it is told", func() bool { return sess.sink.version() > from })
	u.namespace("other")
	sess.freshness.watchOnce(from)
	tp.until("the bookmark is taken", func() bool { return sess.sink.version() > from+1 })
}

// TestAge: an answer tells how long ago the upstream was heard of, and one that would be too old is
// proven to be current, or is the upstream's.
func TestAge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pods   int
		bound  time.Duration
		passed int
		proofs uint64
	}{{2 * minProofObjects, 0, 0, 0}, {2 * minProofObjects, time.Hour, 0, 0}, {2 * minProofObjects, time.Nanosecond, 0, 1}, {3, time.Nanosecond, 1, 0}} {
		u := startUpstream(t, apiserver.Options{Pods: tt.pods})
		tp := startProxy(t, u, Options{Resources: []string{"pods"}, MaxStaleness: tt.bound, timeouts: patient()})
		tp.ready()
		resp := tp.open(tp.client, http.MethodGet, consistentList+"?resourceVersion=0", "Authorization", "Bearer token-jane")
		passed, sess := len(u.forwarded(consistentList)), tp.resource("pods").ready.Load()
		if age := resp.Header.Get("Age"); passed != tt.passed || sess.freshness.queries.Load() != tt.proofs || (age != "") != (passed == 0) || resp.StatusCode != http.StatusOK {
			t.Errorf("%+v: answered %d, of age %q, %d upstream, %d questions", tt, resp.StatusCode, age, passed, sess.freshness.queries.Load())
		}
		rv := sess.sink.version()
		if tp.get("jane", fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", consistentList, rv)); len(u.forwarded(consistentList)) != 0 {
			t.Errorf("%+v: the state of %d went upstream", tt, rv)
		}
	}
}

// changing is a source whose answer to the question for its newest resourceVersion comes after a
// change that is newer.
type changing struct {
	source.Source
	newest string
	then   func()
}

func (c changing) NewestVersion(context.Context, string) (string, error) {
	c.then()
	return c.newest, nil
}

// TestProvenUnderChanges: a copy that has come further than the answer is by the time of it is
// current; one that was further before the question is of another past.
func TestProvenUnderChanges(t *testing.T) {
	for _, tt := range []struct {
		newest  string
		current bool
	}{{"6", true}, {"5", true}, {"4", false}} {
		ts := newTestSink(t, 0) // at 5
		src := changing{newest: tt.newest, then: func() {
			if err := ts.put(wire.Modified, "a", 9, 0); err != nil {
				t.Error(err)
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		p := newFreshnessProver(ctx, []source.Source{src}, ts.storeSink, func() reflector.Status { return reflector.Status{Phase: reflector.Watching} }, defaultTimeouts.proof)
		if got := p.proveCurrent(t.Context()); got != tt.current {
			t.Errorf("the upstream was at %s, the copy at 5, and is at %d: current: %v", tt.newest, ts.version(), got)
		}
		cancel()
		p.close()
	}
}
