package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

const (
	consistentList  = "/api/v1/pods"
	plainWatch      = "/api/v1/pods?watch=true&timeoutSeconds=1"
	consistentWatch = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)

// label changes a pod at the upstream, and returns a text that every later consistent read must
// contain.
func (u *fakeUpstream) label(n int) string {
	u.t.Helper()
	client, err := kubernetes.NewForConfig(u.config)
	check.NoError(u.t, err)
	list, err := client.CoreV1().Pods("").List(u.t.Context(), metav1.ListOptions{Limit: 1})
	check.NoError(u.t, err)
	pod, mark := &list.Items[0], fmt.Sprintf("mark-%d-", n)
	pod.Labels["mark"] = mark + "x"
	if _, err := client.CoreV1().Pods(pod.Namespace).Update(u.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	return mark
}

// namespace creates a namespace at the upstream. After that, the upstream's newest resourceVersion
// does not belong to a change of pods.
func (u *fakeUpstream) namespace(name string) {
	u.t.Helper()
	client, err := kubernetes.NewForConfig(u.config)
	check.NoError(u.t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(u.t.Context(), ns, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// TestProven checks that the proxy answers consistent reads from the cache, and that the answers
// contain every write that completed before the read. It changes pods, and also resources other
// than pods.
func TestProven(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, provable, Options{Resources: []string{"pods"}, timeouts: patient()})
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
		u.wantForwarded(0, consistentList)
	}
	pods := tp.resource("pods")
	if pods.FeedStats.VersionQueries.Load() == 0 || pods.FeedStats.ProofWatches.Load() == 0 {
		t.Errorf("%d questions and %d watches upstream", pods.FeedStats.VersionQueries.Load(), pods.FeedStats.ProofWatches.Load())
	}
}

// TestProvenTogether checks that reads that arrive during a proof share version queries and
// watches.
func TestProvenTogether(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, provable, Options{Resources: []string{"pods"}, timeouts: patient()})
	u.namespace("other")
	release := make(chan struct{})
	u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "pods"), Times: 1, Hold: release})
	var all sync.WaitGroup
	began := time.Now()
	pods := tp.resource("pods")
	get := func() {
		tp.want(http.StatusOK, "jane", consistentList)
	}
	all.Go(get) // this read starts a version query before the other reads arrive
	tp.until("it is asked", func() bool { return pods.FeedStats.VersionQueries.Load() == 1 })
	for range 20 {
		all.Go(get)
	}
	tp.until("all wait", func() bool { return tp.waiting() >= 21 })
	close(release)
	all.Wait()
	// Some of the 20 reads may arrive only after the second version query was sent, and on a busy
	// machine some arrive a second later.
	took := time.Since(began)
	if asked := pods.FeedStats.VersionQueries.Load(); asked < 2 || asked > 3+uint64(took/time.Second) {
		t.Errorf("%d questions upstream within %v", asked, took)
	}
	u.wantForwarded(0, consistentList)
}

// TestNotProven checks that the proxy forwards consistent reads if the proof fails, is not wanted,
// or would cost as much as the read.
func TestNotProven(t *testing.T) {
	for name, tt := range map[string]struct {
		pods    int
		options Options
		path    string
		fault   func(u *fakeUpstream)
	}{
		"one object":          {pods: 2 * mirror.MinProofObjects, path: "/api/v1/namespaces/team-00000/pods/x"},
		"of cached ones, too": {pods: 3, path: "/api/v1/namespaces/team-00000/pods/x", options: Options{TrustCache: []string{"pods"}}},
		"a few":               {pods: 2 * mirror.MinProofObjects, path: consistentList + "?limit=1"},
		"of a few":            {pods: 3, path: consistentList},
		"not wanted":          {pods: 2 * mirror.MinProofObjects, path: consistentList, options: Options{ForwardConsistent: true}},
		"refused": {pods: 2 * mirror.MinProofObjects, path: consistentList, fault: func(u *fakeUpstream) {
			u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "pods"), Times: 1, Err: errors.New("no")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.Resources = []string{"pods"}
			u, tp := startReady(t, apiserver.Options{Pods: tt.pods}, tt.options)
			if tt.fault != nil {
				tt.fault(u)
			}
			tp.get("jane", tt.path)
			u.wantForwarded(1, "/api/v1")
			want := mirror.Cheap
			if tt.fault != nil {
				want = mirror.Stale
			}
			check.Equal(t, tp.server.forwardedFor[want].Load(), 1, "forwarded for this reason")
		})
	}
}

// waiting returns the number of reads in progress.
func (tp *testProxy) waiting() int { return inUse(tp.server.seats.Reads) }

// resource returns a resource that the proxy caches.
func (tp *testProxy) resource(resource string) *mirror.Resource {
	tp.t.Helper()
	for _, res := range tp.server.mirror.All() {
		if res.GVR().Resource == resource {
			return res
		}
	}
	tp.t.Fatalf("%s are not cached", resource)
	return nil
}

// TestAge checks that an answer from the cache has the header Age: the time since the upstream last
// confirmed the cache. If the cache is older than MaxStaleness, the proxy proves that it is
// current, or forwards the read.
func TestAge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pods   int
		bound  time.Duration
		passed int
		proofs uint64
	}{{2 * mirror.MinProofObjects, 0, 0, 0}, {2 * mirror.MinProofObjects, time.Hour, 0, 0}, {2 * mirror.MinProofObjects, time.Nanosecond, 0, 1}, {3, time.Nanosecond, 1, 0}} {
		u, tp := startReady(t, apiserver.Options{Pods: tt.pods}, Options{Resources: []string{"pods"}, MaxStaleness: tt.bound, timeouts: patient()})
		resp := tp.open(tp.client, http.MethodGet, consistentList+"?resourceVersion=0", "Authorization", "Bearer token-jane")
		passed, pods := len(u.forwarded(consistentList)), tp.resource("pods")
		if age := resp.Header.Get("Age"); passed != tt.passed || pods.FeedStats.VersionQueries.Load() != tt.proofs || (age != "") != (passed == 0) || resp.StatusCode != http.StatusOK {
			t.Errorf("%+v: answered %d, of age %q, %d upstream, %d questions", tt, resp.StatusCode, age, passed, pods.FeedStats.VersionQueries.Load())
		}
		rv := pods.Serving().Version()
		if tp.get("jane", fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", consistentList, rv)); len(u.forwarded(consistentList)) != 0 {
			t.Errorf("%+v: the state of %d went upstream", tt, rv)
		}
	}
}
