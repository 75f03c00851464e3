package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/serve/feed"
)

// TestWatchAfterRestore: after a restore of the upstream, a watch that resumes from before gets 410
// and is neither forwarded nor served. Lists get 429 while the resource is reread.
func TestWatchAfterRestore(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	tp.ready()
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	_, body := tp.get("jane", "/api/v1/configmaps")
	before := resourceversion.Number(between(body, `"resourceVersion":"`, `"`))
	var newest uint64 // configmaps have not come to it
	for _, name := range []string{"one", "two"} {
		made, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		newest = resourceversion.Number(made.ResourceVersion)
	}
	tp.until("the pods are followed", func() bool { return pods.serving().Version() == newest })
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "eve" })
	configmaps.refuseAs(feed.ErrWentBack)
	tp.until("both have ended", func() bool { return pods.serving() == nil && configmaps.serving() == nil })
	u.forwarded("")

	from := func(who, what string, rv uint64) (int, string) {
		return tp.get(who, fmt.Sprintf("/api/v1/%s?watch=true&timeoutSeconds=1&resourceVersion=%d", what, rv))
	}
	for _, what := range []string{"pods", "configmaps"} {
		for _, rv := range []uint64{before, newest} {
			if code, body := from("jane", what, rv); code != http.StatusGone {
				t.Errorf("%s from %d, while it is read: %d %.200s", what, rv, code, body)
			}
		}
		if code, body := from("jane", what, newest+1); code == http.StatusGone {
			t.Errorf("%s from %d, which is not known from before: %d %.200s", what, newest+1, code, body)
		}
		from("eve", what, newest) // who may not read it: the upstream refuses her
		for _, query := range []string{"", "resourceVersion=0", "limit=500", fmt.Sprint("resourceVersion=", newest), "watch=true", "watch=true&resourceVersion=0"} {
			if code, body := tp.get("jane", "/api/v1/"+what+"?"+query); code != http.StatusTooManyRequests || !strings.Contains(body, `"retryAfterSeconds":1`) {
				t.Errorf("%s?%s, while it is read: %d %.200s", what, query, code, body)
			}
		}
		if code, body := tp.get("jane", "/api/v1/"+what+"?limit=1"); code != http.StatusOK {
			t.Errorf("a question for the newest resourceVersion: %d %.200s", code, body)
		}
	}
	if got := len(u.forwarded("/api/v1/")); got != 6 {
		t.Errorf("%d requests were forwarded, want those from what is not known, those of whom it is denied, and questions", got)
	}

	tp.until("both are cached again", func() bool { return pods.serving() != nil && configmaps.serving() != nil })
	if code, body := from("jane", "pods", before); code != http.StatusGone {
		t.Errorf("from what the new session never had: %d %.200s", code, body)
	}
	if code, body := from("jane", "pods", pods.serving().Version()); code != http.StatusOK {
		t.Errorf("from the new session's state: %d %.200s", code, body)
	}
	if got := u.forwarded("/api/v1/pods"); len(got) > 0 {
		t.Errorf("%v was forwarded", got)
	}
}

// TestRestoreWithoutSession: what is said of a resource that has no session when the upstream is
// found to have gone back, because an upstream that has just started did not know it or has
// redefined it. Watches of it that were forwarded meanwhile end, and cannot resume.
func TestRestoreWithoutSession(t *testing.T) {
	for name, why := range map[string]error{"missing": reflector.ErrUnknownResource, "redefined": errRedefined} {
		t.Run(name, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{Pods: 3})
			tp := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
			tp.ready()
			pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
			from := pods.serving().Version()
			pods.serving().end(why)
			tp.until("the pods' session has ended", func() bool { return pods.state().session == nil })
			watch := fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=60&resourceVersion=%d", from)
			ended := make(chan int, 1)
			go func() {
				code, _ := tp.get("jane", watch)
				ended <- code
			}()
			tp.until("a watch is forwarded", func() bool { return tp.server.forwardedWatches.count() == 1 })
			configmaps.refuseAs(feed.ErrWentBack)
			if code := <-ended; code != http.StatusOK {
				t.Errorf("the forwarded watch: %d", code)
			}
			if code, body := tp.get("jane", watch); code != http.StatusGone {
				t.Errorf("resumed: %d %.200s", code, body)
			}
		})
	}
}

// TestLostWatchThatIsForwarded: in place of what the upstream answers, a watch from before a
// restore gets 410, which is recorded as all that the proxy refuses; but who may not watch gets the
// upstream's answer.
func TestLostWatchThatIsForwarded(t *testing.T) {
	for upstream, gone := range map[int]bool{http.StatusOK: true, http.StatusSwitchingProtocols: true, http.StatusForbidden: false} {
		var fs forwardedWatches
		r, p := fs.begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), func() {})
		p.from, p.lost = 7, true
		err := wrapWatchBody(&http.Response{StatusCode: upstream, Header: http.Header{}, Body: http.NoBody, Request: r})
		if apierrors.IsResourceExpired(err) != gone || (err != nil) != gone {
			t.Errorf("%v in place of %d", err, upstream)
		}
		fs.forget(p)
	}
}

// TestRestoreOnDemand: a resource on demand whose session has ended is not cached, but it was.
func TestRestoreOnDemand(t *testing.T) {
	for _, first := range []string{"ended", "restored"} {
		t.Run(first, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{Pods: 3})
			tp := startProxy(t, u, Options{MemoryBudget: 64 << 20, Resources: []string{"configmaps"}})
			tp.ready()
			tp.get("jane", "/api/v1/pods?resourceVersion=0")
			tp.until("pods are cached", func() bool {
				pods := tp.server.resources.find(podsResource)
				return pods != nil && pods.serving() != nil
			})
			from, session := tp.resource("pods").serving().Version(), tp.resource("pods").serving()
			if first == "ended" {
				session.end(reflector.ErrUnknownResource)
			} else {
				u.mu.Lock()
				u.forbidden = "/api/v1" // so that it cannot be cached again
				u.mu.Unlock()
			}
			tp.resource("configmaps").refuseAs(feed.ErrWentBack)
			tp.until("pods are not cached", func() bool {
				pods := tp.server.resources.find(podsResource)
				return pods == nil || pods.serving() == nil
			})
			for _, query := range []string{"", "&pretty=true"} {
				if code, body := tp.get("jane", fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=%d%s", from, query)); code != http.StatusGone {
					t.Errorf("a watch from before: %d %.200s", code, body)
				}
			}
		})
	}
}

// TestOnDemandThroughRestart: a resource on demand is cached again although the upstream, which has
// just been restored or upgraded, does not know it at first.
func TestOnDemandThroughRestart(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"restored": feed.ErrWentBack, "upgraded": errRedefined} {
		t.Run(name, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{Pods: 3})
			tp := startProxy(t, u, Options{MemoryBudget: 64 << 20})
			tp.get("jane", "/api/v1/pods?resourceVersion=0")
			ready := func() *session {
				if pods := tp.server.resources.find(podsResource); pods != nil {
					return pods.serving()
				}
				return nil
			}
			tp.until("pods are cached", func() bool { return ready() != nil })
			pods := tp.resource("pods")
			u.forbid("/api/v1")
			pods.refuseAs(why)
			tp.until("one attempt has failed", func() bool { return ready() == nil && pods.state().standing() == standingForbidden })
			u.forbid("")
			tp.until("pods are cached again", func() bool { return ready() != nil })
			if tp.resource("pods") != pods {
				t.Error("it was dropped meanwhile")
			}
		})
	}
}

// TestListAfterRestore: who lists again can watch from there, though the list came from the
// upstream, and the session of a resource that does not change has not come to its resourceVersion.
func TestListAfterRestore(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	tp.ready()
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	// The upstream had come much further before it was restored.
	tp.server.resources.restoreTracker.observe(1 << 40)
	configmaps.refuseAs(feed.ErrWentBack)
	tp.until("both have ended", func() bool { return pods.serving() == nil && configmaps.serving() == nil })
	tp.watching(pods, configmaps)
	made, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("new"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, body := tp.get("jane", "/api/v1/configmaps")
	listed := resourceversion.Number(between(body, `"resourceVersion":"`, `"`))
	if newest := resourceversion.Number(made.ResourceVersion); listed < newest {
		t.Fatalf("listed at %d, the newest is %d", listed, newest)
	}
	from := "/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion="
	if code, body := tp.get("jane", fmt.Sprint(from, listed)); code != http.StatusOK {
		t.Errorf("from the list: %d %.200s", code, body)
	}
	if code, body := tp.get("jane", fmt.Sprint(from, listed+1000)); code != http.StatusGone {
		t.Errorf("from what the upstream has not come to: %d %.200s", code, body)
	}
}

// TestNeverCachedAfterRestore: of a resource that was never cached, reads are forwarded.
func TestNeverCachedAfterRestore(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.aggregate(func(name string) (int, string) {
		if name == "v1.apps" {
			return http.StatusNotFound, ""
		}
		return http.StatusOK, ""
	})
	tp := startProxy(t, u, Options{Resources: []string{"deployments.apps", "configmaps"}, timeouts: leisurely()})
	tp.ready()
	tp.server.resources.restoreTracker.observe(1 << 40)
	tp.resource("configmaps").refuseAs(feed.ErrWentBack)
	if code, body := tp.get("jane", "/apis/apps/v1/deployments?watch=true&timeoutSeconds=1&resourceVersion=1"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// TestRestoreFoundLate: a restore that ended all sessions for another reason before they could find
// it, as one to another version of kube-apiserver does, is found by the next list.
func TestRestoreFoundLate(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	tp.ready()
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	past := pods.serving().Version() + 1000 // which the upstream had reached
	for _, res := range []*resource{pods, configmaps} {
		res.serving().end(errRedefined)
	}
	tp.until("both have ended", func() bool { return pods.state().session == nil && configmaps.state().session == nil })
	restores := &tp.server.resources.restoreTracker
	restores.sessionBegan(pods.gvr)
	restores.sessionEnded(pods.gvr, past, false)
	tp.watching(pods)
	for _, what := range []string{"pods", "configmaps"} {
		for _, from := range []uint64{past - 500, past} {
			if code, body := tp.get("jane", fmt.Sprintf("/api/v1/%s?watch=true&timeoutSeconds=1&resourceVersion=%d", what, from)); code != http.StatusGone {
				t.Errorf("%s from %d, before the restore: %d %.200s", what, from, code, body)
			}
		}
	}
}

// TestShownRestore: a list that is older than what was cached shows a restore, unless that is known
// already or another server was asked.
func TestShownRestore(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		then func(rt *restoreTracker)
		want bool
	}{
		"older":             {func(*restoreTracker) {}, true},
		"known":             {func(rt *restoreTracker) { rt.wentBack() }, false},
		"of another server": {func(rt *restoreTracker) { rt.replaced(pods) }, false},
	} {
		var rt restoreTracker
		if rt.revealsRestore(pods, 10) {
			t.Errorf("%s: the first list shows a restore", name)
		}
		rt.sessionBegan(pods)
		rt.sessionEnded(pods, 20, false)
		c.then(&rt)
		if got := rt.revealsRestore(pods, 19); got != c.want {
			t.Errorf("%s: shows a restore: %v", name, got)
		}
		rt.sessionBegan(pods)
		rt.sessionEnded(pods, 20, false)
		if rt.revealsRestore(pods, 20) {
			t.Errorf("%s: a list as new as what was cached shows a restore", name)
		}
	}
}

// TestRestoreAfterOtherEnd: what a session knew that ended for another reason counts as well.
func TestRestoreAfterOtherEnd(t *testing.T) {
	var rt restoreTracker
	rt.observe(10)
	rt.observe(7)
	if rt.before(10) {
		t.Error("went back before it went back")
	}
	rt.wentBack()
	rt.observe(20)
	if !rt.before(10) || rt.before(11) || rt.before(0) {
		t.Errorf("went back from %d", rt.newestBefore)
	}
	rt.wentBack()
	if !rt.before(20) {
		t.Errorf("went back from %d the second time", rt.newestBefore)
	}
}

// TestUnread: a resource that was cached shortly before the upstream went back is unread until it
// is cached again, for rereadTime at most.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt restoreTracker
		resources := map[string]schema.GroupVersionResource{}
		for _, name := range []string{"cached", "ended", "endedLater", "endedLongAgo", "never", "again"} {
			resources[name] = schema.GroupVersionResource{Version: "v1", Resource: name}
			if name != "never" {
				rt.sessionBegan(resources[name])
			}
		}
		check := func(when string, want ...string) {
			for name, gvr := range resources {
				if got := rt.isUnread(gvr); got != slices.Contains(want, name) {
					t.Errorf("%s: %s unread: %v", when, name, got)
				}
			}
		}
		rt.sessionEnded(resources["never"], 5, false)
		rt.sessionEnded(resources["endedLongAgo"], 5, false)
		time.Sleep(rereadTime + time.Second)
		rt.sessionEnded(resources["ended"], 5, false)
		check("before")
		rt.wentBack()
		rt.sessionEnded(resources["endedLater"], 5, true)
		rt.sessionBegan(resources["again"])
		check("after", "cached", "ended", "endedLater")
		rt.sessionEnded(resources["again"], 5, true) // it was read while that was found
		check("after it ended", "cached", "ended", "endedLater", "again")
		rt.sessionBegan(resources["again"])
		rt.sessionEnded(resources["again"], 5, false)
		check("when cached again", "cached", "ended", "endedLater")
		time.Sleep(rereadTime + time.Second)
		check("in the end")
		if rt.forget(); len(rt.cached) != 1 {
			t.Errorf("%d are remembered", len(rt.cached))
		}
	})
}

// between returns what stands between two texts.
func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}
