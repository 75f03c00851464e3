package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// TestWatchAfterRestore checks requests after the proxy has found a restore of the upstream.
// Watches that resume from a resourceVersion from before the restore get 410, and are neither
// forwarded nor served. Lists, except of a small page, get 429 while the resource is reread.
func TestWatchAfterRestore(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	_, body := tp.get("jane", "/api/v1/configmaps")
	before := resourceversion.Number(between(body, `"resourceVersion":"`, `"`))
	var newest uint64 // the session of configmaps has not reached this resourceVersion
	for _, name := range []string{"one", "two"} {
		made, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod(name), metav1.CreateOptions{})
		check.NoError(t, err)
		newest = resourceversion.Number(made.ResourceVersion)
	}
	tp.until("the pods are followed", func() bool { return pods.Serving().Version() == newest })
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "eve" })
	configmaps.Refuse(feed.ErrWentBack)
	tp.until("both have ended", func() bool { return pods.Serving() == nil && configmaps.Serving() == nil })
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
		from("eve", what, newest) // eve may not read: the upstream refuses her
		for _, query := range []string{"", "resourceVersion=0", "limit=500", fmt.Sprint("resourceVersion=", newest), "watch=true", "watch=true&resourceVersion=0"} {
			tp.says(http.StatusTooManyRequests, `"retryAfterSeconds":1`, "jane", "/api/v1/"+what+"?"+query)
		}
		tp.want(http.StatusOK, "jane", "/api/v1/"+what+"?limit=1")
	}
	u.wantForwarded(6, "/api/v1/")

	tp.until("both are cached again", func() bool { return pods.Serving() != nil && configmaps.Serving() != nil })
	if code, body := from("jane", "pods", before); code != http.StatusGone {
		t.Errorf("from what the new session never had: %d %.200s", code, body)
	}
	if code, body := from("jane", "pods", pods.Serving().Version()); code != http.StatusOK {
		t.Errorf("from the new session's state: %d %.200s", code, body)
	}
	u.wantForwarded(0, "/api/v1/pods")
}

// TestRestoreWithoutSession checks a resource that has no session, and therefore is not cached,
// when the proxy finds that the upstream went back. The resource has no session for one of two
// reasons: the upstream has just started and does not serve it yet, or the upstream has redefined
// it. Meanwhile the proxy forwards watches of the resource. These watches end, and cannot resume.
func TestRestoreWithoutSession(t *testing.T) {
	for name, why := range map[string]error{"missing": reflector.ErrUnknownResource, "redefined": mirror.ErrRedefined} {
		t.Run(name, func(t *testing.T) {
			_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
			pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
			from := pods.Serving().Version()
			pods.Serving().End(why)
			tp.until("the pods' session has ended", func() bool { return pods.State().Session == nil })
			watch := fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=60&resourceVersion=%d", from)
			ended := make(chan int, 1)
			go func() {
				code, _ := tp.get("jane", watch)
				ended <- code
			}()
			tp.until("a watch is forwarded", func() bool { return tp.server.forwardedWatches.count() == 1 })
			configmaps.Refuse(feed.ErrWentBack)
			check.Equal(t, <-ended, http.StatusOK, "the forwarded watch")
			tp.want(http.StatusGone, "jane", watch)
		})
	}
}

// TestLostWatchThatIsForwarded checks that a forwarded watch from before a restore gets 410 in
// place of the upstream's success. If the upstream refuses the watch, the client gets the
// upstream's refusal.
func TestLostWatchThatIsForwarded(t *testing.T) {
	for upstream, gone := range map[int]bool{http.StatusOK: true, http.StatusSwitchingProtocols: true, http.StatusForbidden: false} {
		var fs forwardedWatches
		p := fs.begin(httptest.NewRecorder(), func() {})
		p.from, p.lost = 7, apierrors.NewResourceExpired("lost")
		err := p.wrapBody(&http.Response{StatusCode: upstream, Header: http.Header{}, Body: http.NoBody})
		if apierrors.IsResourceExpired(err) != gone || (err != nil) != gone {
			t.Errorf("%v in place of %d", err, upstream)
		}
		fs.forget(p)
	}
}

// TestRestoreOnDemand checks a resource on demand that is no longer cached because its session has
// ended. After a restore, watches of the resource from before the restore get 410.
func TestRestoreOnDemand(t *testing.T) {
	for _, first := range []string{"ended", "restored"} {
		t.Run(first, func(t *testing.T) {
			u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{MemoryBudget: 64 << 20, Resources: []string{"configmaps"}})
			tp.get("jane", "/api/v1/pods?resourceVersion=0")
			tp.until("pods are cached", func() bool { return tp.serves(podsResource) })
			from, session := tp.resource("pods").Serving().Version(), tp.resource("pods").Serving()
			if first == "ended" {
				session.End(reflector.ErrUnknownResource)
			} else {
				// the upstream refuses the resource, so that the proxy cannot cache it again
				u.set(func() { u.forbidden = "/api/v1" })
			}
			tp.resource("configmaps").Refuse(feed.ErrWentBack)
			tp.until("pods are not cached", func() bool {
				pods := tp.server.mirror.Find(podsResource)
				return pods == nil || pods.Serving() == nil
			})
			for _, query := range []string{"", "&pretty=true"} {
				tp.want(http.StatusGone, "jane", fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=%d%s", from, query))
			}
		})
	}
}

// TestOnDemandThroughRestart checks a resource on demand that the upstream does not serve at first
// after a restore or an upgrade. The proxy caches the resource again.
func TestOnDemandThroughRestart(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"restored": feed.ErrWentBack, "upgraded": mirror.ErrRedefined} {
		t.Run(name, func(t *testing.T) {
			u, tp := start(t, apiserver.Options{Pods: 3}, Options{MemoryBudget: 64 << 20})
			tp.get("jane", "/api/v1/pods?resourceVersion=0")
			ready := func() *mirror.Session {
				if pods := tp.server.mirror.Find(podsResource); pods != nil {
					return pods.Serving()
				}
				return nil
			}
			tp.until("pods are cached", func() bool { return ready() != nil })
			pods := tp.resource("pods")
			u.forbid("/api/v1")
			pods.Refuse(why)
			tp.until("one attempt has failed", func() bool { return ready() == nil && pods.State().Standing() == mirror.StandingForbidden })
			u.forbid("")
			tp.until("pods are cached again", func() bool { return ready() != nil })
			if tp.resource("pods") != pods {
				t.Error("it was dropped meanwhile")
			}
		})
	}
}

// TestListAfterRestore lists a resource after a restore, and then watches from the resourceVersion
// of the list. The upstream answers the list, and the cache has not reached that resourceVersion,
// because the resource does not change. The proxy must accept the watch.
func TestListAfterRestore(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	// Before the restore, the upstream had reached a much higher resourceVersion.
	tp.server.mirror.Restores.Observe(1 << 40)
	configmaps.Refuse(feed.ErrWentBack)
	tp.until("both have ended", func() bool { return pods.Serving() == nil && configmaps.Serving() == nil })
	tp.watching(pods, configmaps)
	made, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("new"), metav1.CreateOptions{})
	check.NoError(t, err)
	_, body := tp.get("jane", "/api/v1/configmaps")
	listed := resourceversion.Number(between(body, `"resourceVersion":"`, `"`))
	if newest := resourceversion.Number(made.ResourceVersion); listed < newest {
		t.Fatalf("listed at %d, the newest is %d", listed, newest)
	}
	from := "/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion="
	tp.want(http.StatusOK, "jane", fmt.Sprint(from, listed))
	tp.want(http.StatusGone, "jane", fmt.Sprint(from, listed+1000))
}

// TestNeverCachedAfterRestore checks that the proxy forwards reads of a resource that was never
// cached, even after a restore.
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
	tp.server.mirror.Restores.Observe(1 << 40)
	tp.resource("configmaps").Refuse(feed.ErrWentBack)
	tp.want(http.StatusOK, "jane", "/apis/apps/v1/deployments?watch=true&timeoutSeconds=1&resourceVersion=1")
}

// TestRestoreFoundByNextList checks a restore that ends all sessions (the cached copies of
// resources) before they can find it. An example is a restore that also changes the version of
// kube-apiserver. The next list must find the restore.
func TestRestoreFoundByNextList(t *testing.T) {
	t.Parallel()
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods", "configmaps"}, timeouts: leisurely()})
	pods, configmaps := tp.resource("pods"), tp.resource("configmaps")
	past := pods.Serving().Version() + 1000 // the upstream had reached this resourceVersion
	for _, res := range []*mirror.Resource{pods, configmaps} {
		res.Serving().End(mirror.ErrRedefined)
	}
	tp.until("both have ended", func() bool { return pods.State().Session == nil && configmaps.State().Session == nil })
	restores := &tp.server.mirror.Restores
	restores.SessionBegan(pods.GVR())
	restores.SessionEnded(pods.GVR(), past, false)
	tp.watching(pods)
	for _, what := range []string{"pods", "configmaps"} {
		for _, from := range []uint64{past - 500, past} {
			tp.want(http.StatusGone, "jane", fmt.Sprintf("/api/v1/%s?watch=true&timeoutSeconds=1&resourceVersion=%d", what, from))
		}
	}
}

// between returns the part of s between the texts before and after.
func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}
