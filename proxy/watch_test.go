package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// TestRevoked checks that a watch ends when its caller's permission or token is no longer valid.
func TestRevoked(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond})
	stays := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(stays, "ADDED")
	for name, revoke := range map[string]func(){
		"permission": func() {
			u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "leaver" })
		},
		"token": func() {
			u.deny(nil)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.expired["leaver"] = true
		},
	} {
		u.deny(nil)
		u.set(func() { u.expired["leaver"] = false })
		lines := tp.watch("leaver", "/api/v1/pods?watch=true&resourceVersion=0")
		tp.next(lines, "ADDED")
		revoke()
		for ended := false; !ended; {
			select {
			case _, ok := <-lines:
				ended = !ok
			case <-tp.ctx.Done():
				t.Fatalf("%s: the watch goes on", name)
			}
		}
	}
	must(t)(u.writer().CoreV1().Pods("default").Create(tp.ctx, pod("later"), metav1.CreateOptions{}))
	tp.next(stays, "later")
	check.Equal(t, tp.server.revoked.Load(), 2, "watches were revoked")
}

// TestRecheckIsUncached checks that a recheck of a watch does not use cached answers, however long
// their TTL is. A revoked token or permission ends the watch. A single denial does not end it,
// because the denial may be from a server that has not loaded its rules.
func TestRecheckIsUncached(t *testing.T) {
	const long = time.Hour
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond, Authentication: Authentication{TokenTTL: long, AllowTTL: long, DenyTTL: long}})
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	asked, noes := 0, 1 // guarded by the upstream's lock
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		if s.User == "jane" && s.ResourceAttributes != nil {
			asked++
			noes--
			return noes >= 0
		}
		return false
	})
	tp.until("it was asked about again after a no", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return asked >= 3 || tp.server.revoked.Load() > 0
	})
	if n := tp.server.revoked.Load(); n > 0 {
		t.Fatal("one no has ended it")
	}
	u.set(func() { u.expired["jane"] = true })
	tp.ends("the token is revoked", lines)
	lines = tp.watch("joan", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "joan" })
	tp.ends("the permission is revoked", lines)
}

// TestUpstreamDown stops the upstream. Meanwhile watches must stay open, the proxy must answer
// reads by the last review answers, and /readyz must fail. When the upstream is back, the same
// watch must receive the changes.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Recheck: 50 * time.Millisecond})
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0")
	const part = "/api/v1/pods?resourceVersion=0&labelSelector=app"
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.User == "joan" && s.ResourceAttributes != nil && s.ResourceAttributes.LabelSelector == nil
	})
	tp.want(http.StatusOK, "joan", part)
	u.setDown(true)
	tp.until("/readyz says so", func() bool {
		code, body := tp.get("jane", "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-]upstream failed") && strings.Contains(body, "[+]resource/pods ok, but behind")
	})
	tp.want(http.StatusOK, "jane", "/livez")
	tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0")
	tp.want(http.StatusOK, "joan", part)
	tp.want(http.StatusServiceUnavailable, "stranger", "/api/v1/pods?resourceVersion=0")
	tp.want(http.StatusServiceUnavailable, "jane", "/api/v1/pods")
	must(t)(u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("meanwhile"), metav1.CreateOptions{}))
	u.setDown(false)
	tp.next(lines, "meanwhile")
}

// TestUpstreamHangs checks an upstream that receives requests but does not answer. The proxy sends
// it only a few reviews, and continues to answer reads.
func TestUpstreamHangs(t *testing.T) {
	t.Parallel()
	wait := timing(func(w *timeouts) { w.review = 500 * time.Millisecond })
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: wait})
	const list = "/api/v1/pods?resourceVersion=0"
	tp.want(http.StatusOK, "jane", list)
	u.setHanging(true)
	tp.until("/readyz says so", func() bool { code, _ := tp.get("jane", "/readyz"); return code == http.StatusServiceUnavailable })
	// An answer that the upstream sent before the test made it hang may still arrive. Shortly after
	// such an answer, an unanswered review does not count as an outage.
	tp.until("it is known", func() bool { code, _ := tp.get("jane", list); return code == http.StatusOK })
	u.forwarded("")
	const many = 50
	codes := make(chan int, many)
	for range many {
		go tp.sendCode(codes, "jane", list)
	}
	refused := 0
	for range many {
		switch code := <-codes; code {
		case http.StatusOK:
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Errorf("%d", code)
		}
	}
	if refused > 1 { // one read detects the outage for all others
		t.Errorf("%d of %d reads were refused", refused, many)
	}
	asked := 0
	u.mu.Lock()
	for _, q := range u.requests {
		if strings.HasSuffix(q.uri, "reviews") {
			asked++
		}
	}
	u.mu.Unlock()
	if asked > many/2 { // a few reviews are sent before the outage is detected
		t.Errorf("%d questions for %d reads", asked, many)
	}
	u.setHanging(false)
	tp.until("it is ready again", func() bool { code, _ := tp.get("jane", "/readyz"); return code == http.StatusOK })
}

// TestRelist checks what watchers receive after a relist: first the deletions, and then the other
// changes in their order. The resourceVersions of the deletions are not newer than the last
// resourceVersion that the watchers had. A watcher that reconnects misses nothing.
func TestRelist(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{Resources: []string{"pods"}})
	client := u.writerPast()
	pods := client.CoreV1().Pods("default")
	for _, name := range []string{"a", "b", "gone", "z"} {
		must(t)(pods.Create(tp.ctx, pod(name), metav1.CreateOptions{}))
	}
	tp.until("cached", func() bool { code, _ := tp.get("jane", "/readyz"); return code == http.StatusOK })
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, `"z"`)
	before := get(t, tp.ctx, u, "z")

	u.setDown(true)
	check.NoError(t, pods.Delete(tp.ctx, "gone", metav1.DeleteOptions{}))
	// The newest change has the key that sorts first.
	for _, name := range []string{"z", "b", "a"} {
		touch(t, tp.ctx, u, name)
	}
	must(t)(pods.Create(tp.ctx, pod("c"), metav1.CreateOptions{}))
	touch(t, tp.ctx, u, "a")
	u.Compact()
	u.setDown(false)
	news := []string{`"gone"`, `"z"`, `"b"`, `"c"`, `"a"`}
	if gone := tp.next(lines, news[0]); !strings.Contains(gone, `"DELETED"`) || !strings.Contains(gone, `"resourceVersion":"`+before+`"`) {
		t.Errorf("at %s: %s", before, gone)
	}
	for _, want := range news[1:] {
		tp.next(lines, want)
	}
	on := tp.server.mirror.All()[0]
	check.Equal(t, on.State().Sessions, 1, "stores")
	// A watch from the resourceVersion of the first of these events receives all of them again.
	again := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion="+before)
	for _, want := range news {
		tp.next(again, want)
	}
	// A watch from the list's own resourceVersion receives none of them.
	last := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion="+get(t, tp.ctx, u, "a"))
	touch(t, tp.ctx, u, "b")
	if line := tp.next(last, `"MODIFIED"`); !strings.Contains(line, `"b"`) {
		t.Errorf("first %s", line)
	}
	// The proxy never had the state between the first and the last of these changes, so it must
	// forward a watch that resumes from that state.
	u.forwarded("")
	tp.next(tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion="+get(t, tp.ctx, u, "z")), "")
	u.wantForwarded(1, "/api/v1/pods")
}

func touch(t *testing.T, ctx context.Context, u *fakeUpstream, name string) {
	t.Helper()
	pods := u.writerPast().CoreV1().Pods("default")
	p, err := pods.Get(ctx, name, metav1.GetOptions{})
	check.NoError(t, err)
	p.Labels = map[string]string{"touched": p.ResourceVersion}
	must(t)(pods.Update(ctx, p, metav1.UpdateOptions{}))
}

func get(t *testing.T, ctx context.Context, u *fakeUpstream, name string) (resourceVersion string) {
	t.Helper()
	p, err := u.writerPast().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	check.NoError(t, err)
	return p.ResourceVersion
}

// expires waits until a watch ends with 410.
func (tp *testProxy) expires(lines <-chan string) {
	tp.t.Helper()
	var last string
	for line := range lines {
		last = line
	}
	if !strings.Contains(last, `"ERROR"`) || !strings.Contains(last, `"code":410`) {
		tp.t.Errorf("the watch ends with %s", last)
	}
}

// TestStartOver checks two cases: the upstream goes back in time, or a relist has too many changes.
// The proxy then ends the watches and caches the resource again.
func TestStartOver(t *testing.T) {
	t.Parallel()
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: leisurely()})
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	res := tp.server.mirror.All()[0]
	res.Refuse(feed.ErrWentBack)
	tp.expires(lines)
	tp.want(http.StatusTooManyRequests, "jane", "/api/v1/pods?resourceVersion=0")
	tp.until("cached again", func() bool { return res.Serving() != nil && res.State().Sessions == 2 })

	// A watch from a resourceVersion that the upstream had before it went back gets 410. A watch from
	// a resourceVersion that the upstream never had may be valid.
	now := resourceversion.Number(res.Serving().Store().ResourceVersion())
	tp.server.mirror.Restores.Observe(now + 1000)
	tp.server.mirror.Restores.WentBack()
	tp.server.mirror.Restores.SessionBegan(res.GVR())
	for after, want := range map[uint64]int{0: http.StatusOK, 500: http.StatusGone, 1000: http.StatusGone, 1001: http.StatusOK} {
		if code, body := tp.get("jane", fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=%d", now+after)); code != want {
			t.Errorf("from %d after: %d %s", after, code, body)
		}
	}
	tp.want(http.StatusGone, "jane", fmt.Sprintf("/api/v1/pods?resourceVersionMatch=Exact&resourceVersion=%d", now+500))
	res.Refuse(feed.ErrRelistTooLarge)
	tp.until("cached a third time", func() bool { return res.Serving() != nil && res.State().Sessions == 3 })
	// The metric counts only sessions (attempts to cache a resource) that ended before the resource
	// could be read.
	const failed = `apiserver_watch_cache_initialization_errors_total{group="",resource="pods"} `
	if _, body := tp.get("jane", "/metrics"); !strings.Contains(body, failed+"0\n") {
		t.Errorf("sessions that failed: %s", between(body, failed, "\n"))
	}
}

// TestAllStartOver checks that the proxy caches all resources again when one resource finds that
// the upstream went back. If a relist of one resource has too many changes, the proxy caches only
// that resource again.
func TestAllStartOver(t *testing.T) {
	t.Parallel()
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	all := tp.server.mirror.All()
	finder, other := all[0], all[1]
	path := fmt.Sprintf("/api/v1/%s?watch=true&resourceVersion=0&allowWatchBookmarks=true", other.GVR().Resource)
	lines := tp.watch("jane", path)
	finder.Refuse(feed.ErrWentBack)
	tp.expires(lines)
	restarted := func(res *mirror.Resource, starts uint64) bool {
		return res.Serving() != nil && res.State().Sessions == starts
	}
	tp.until("both are cached again", func() bool { return restarted(finder, 2) && restarted(other, 2) })
	finder.Refuse(feed.ErrRelistTooLarge)
	tp.until("one is cached again", func() bool { return restarted(finder, 3) })
	if !restarted(other, 2) {
		t.Error("the other one was given up as well")
	}
}
