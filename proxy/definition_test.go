package proxy

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// TestRedefined redefines a resource at the upstream. The proxy must cache the resource again and
// end its watches. Resources of other groups must be unaffected.
func TestRedefined(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.setSchema("apis/example.com/v1", "one")
	wait := timing(func(w *timeouts) { w.Origin = 20 * time.Millisecond })
	tp := startProxy(t, u, Options{Resources: []string{"pods", "widgets.v1.example.com"}, timeouts: wait})
	define(tp)
	tp.ready()
	pods, before := tp.resource("pods").Serving(), tp.resource("widgets").Serving()
	lines := tp.watch("jane", "/apis/example.com/v1/widgets?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	u.setSchema("api/v1", "one") // this is no change, because no schema was known before
	u.setSchema("apis/example.com/v1", "two")
	for range lines { // all watches end
	}
	tp.until("they are cached again", func() bool {
		sess := tp.resource("widgets").Serving()
		return sess != nil && sess != before
	})
	if tp.resource("pods").Serving() != pods {
		t.Error("pods are cached again, too")
	}
}

// TestReadsWaitForReread checks lists of a resource that the proxy rereads. They wait until the
// resource is cached, and are then answered from the cache.
func TestReadsWaitForReread(t *testing.T) {
	t.Parallel()
	wait := leisurely()
	wait.Reread, wait.Proof = deadline, deadline
	u, tp := startReady(t, provable, Options{Resources: []string{"pods"}, timeouts: wait})
	pods := tp.resource("pods")
	pods.Serving().End(mirror.ErrRedefined)
	tp.until("the session has ended", func() bool { return pods.Serving() == nil })
	u.forwarded("")
	var all sync.WaitGroup
	for _, query := range []string{"?resourceVersion=0", "", ""} { // two of them need a proof
		all.Go(func() {
			tp.want(http.StatusOK, "jane", "/api/v1/pods"+query)
		})
	}
	tp.until("they wait", func() bool { return pods.Waiting() == 3 })
	all.Wait()
	u.wantForwarded(0, "/api/v1/pods")
}

// TestSmallWhileReread checks lists of few objects while the proxy rereads a resource. If the
// resource was redefined, such a list is forwarded immediately. After a restore, it is forwarded as
// soon as the resource has been reread. No list waits for a proof, which would cost the upstream as
// much as the list.
func TestSmallWhileReread(t *testing.T) {
	for name, tt := range map[string]struct {
		why  error
		wait timeouts
	}{"redefined": {mirror.ErrRedefined, leisurely()}, "restored": {feed.ErrWentBack, patient()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.why == feed.ErrWentBack {
				tt.wait.Reread = deadline
			}
			u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: tt.wait})
			pods := tp.resource("pods")
			pods.Refuse(tt.why)
			tp.until("the session has ended", func() bool { return pods.Serving() == nil })
			u.forwarded("")
			queries := pods.FeedStats.VersionQueries.Load()
			if code, body := tp.get("jane", "/api/v1/pods"); code != http.StatusOK || len(u.forwarded("/api/v1/pods")) != 1 {
				t.Errorf("a list: %d %.200s", code, body)
			}
			if read := pods.Serving() != nil; read != (tt.why == feed.ErrWentBack) {
				t.Errorf("it was read before the list was answered: %t", read)
			}
			check.Equal(t, pods.FeedStats.VersionQueries.Load()-queries, 0, "queries for a proof")
		})
	}
}

// TestReadsOfEndedSession checks that a read gets 429 if the resource's session, which caches the
// resource, ends after the read was accepted. 503 would mean that the proxy shuts down.
func TestReadsOfEndedSession(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	var list corev1.PodList
	if _, body := tp.get("jane", "/api/v1/pods?resourceVersion=0"); json.Unmarshal([]byte(body), &list) != nil || len(list.Items) == 0 {
		t.Fatalf("%.300s", body)
	}
	// This simulates the end of a session, just before the session is replaced.
	tp.resource("pods").Serving().Cache().Close()
	pod := list.Items[0]
	for _, path := range []string{
		"/api/v1/pods?resourceVersion=0", "/api/v1/pods?watch=true&resourceVersion=0",
		"/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "?resourceVersion=0",
	} {
		resp := tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
}

// setSchema sets the hash that the upstream's OpenAPI returns for a group and version.
func (u *fakeUpstream) setSchema(path, hash string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.schemas == nil {
		u.schemas = map[string]string{}
	}
	u.schemas[path] = hash
}
