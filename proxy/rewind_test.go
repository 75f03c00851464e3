package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/resourceversion"
)

// TestRewoundWatch: once the upstream went back, a watch that would resume from before is neither
// forwarded nor served, but told that it must list, and who lists waits while the resource is read
// anew.
func TestRewoundWatch(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}})
	f.ready()
	pods, configmaps := f.resource("pods"), f.resource("configmaps")
	_, body := f.get("jane", "/api/v1/configmaps")
	before := resourceversion.Number(between(body, `"resourceVersion":"`, `"`))
	var newest uint64 // configmaps have not come to it
	for _, name := range []string{"one", "two"} {
		made, err := u.writerPast().CoreV1().Pods("default").Create(f.ctx, pod(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		newest = resourceversion.Number(made.ResourceVersion)
	}
	f.until("the pods are followed", func() bool { return pods.ready.Load().sink.version() == newest })
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "eve" })
	configmaps.ready.Load().sink.endSession(errWentBack)
	f.until("both have ended", func() bool { return pods.ready.Load() == nil && configmaps.ready.Load() == nil })
	u.forwarded("")

	from := func(who, what string, rv uint64) (int, string) {
		return f.get(who, fmt.Sprintf("/api/v1/%s?watch=true&timeoutSeconds=1&resourceVersion=%d", what, rv))
	}
	for _, what := range []string{"pods", "configmaps"} {
		for _, rv := range []uint64{before, newest} {
			if code, body := from("jane", what, rv); code != http.StatusGone {
				t.Errorf("%s from %d, while it is read: %d %s", what, rv, code, body)
			}
		}
		if code, body := from("jane", what, newest+1); code == http.StatusGone {
			t.Errorf("%s from %d, which nobody knows from before: %d %s", what, newest+1, code, body)
		}
		if code, body := from("eve", what, newest); code == http.StatusGone {
			t.Errorf("%s for who may not read it, whom the upstream is to tell: %d %s", what, code, body)
		}
		for _, query := range []string{"", "resourceVersion=0", "limit=500", fmt.Sprint("resourceVersion=", newest), "watch=true", "watch=true&resourceVersion=0"} {
			if code, body := f.get("jane", "/api/v1/"+what+"?"+query); code != http.StatusTooManyRequests || !strings.Contains(body, `"retryAfterSeconds":1`) {
				t.Errorf("%s?%s, while it is read: %d %s", what, query, code, body)
			}
		}
		if code, body := f.get("jane", "/api/v1/"+what+"?limit=1"); code != http.StatusOK {
			t.Errorf("a question for the newest resourceVersion: %d %s", code, body)
		}
	}
	if got := len(u.forwarded("/api/v1/")); got != 6 {
		t.Errorf("%d requests were forwarded, want those from what is not known, those of whom it is denied, and questions", got)
	}

	f.until("both are held anew", func() bool { return pods.ready.Load() != nil && configmaps.ready.Load() != nil })
	if code, body := from("jane", "pods", before); code != http.StatusGone {
		t.Errorf("from what the new session never had: %d %s", code, body)
	}
	if code, body := from("jane", "pods", pods.ready.Load().sink.version()); code != http.StatusOK {
		t.Errorf("from the new session's state: %d %s", code, body)
	}
	if got := u.forwarded("/api/v1/pods"); len(got) > 0 {
		t.Errorf("%v was forwarded", got)
	}
}

// TestRewoundWithoutSession: what is said of a resource that has no session when the upstream is
// found to have gone back, because an upstream that has just started did not know it or has
// redefined it. Watches of it that were forwarded meanwhile end, and cannot resume.
func TestRewoundWithoutSession(t *testing.T) {
	for name, why := range map[string]error{"missing": reflector.ErrUnknownResource, "redefined": errRedefined} {
		t.Run(name, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{Pods: 3})
			f := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}})
			f.ready()
			pods, configmaps := f.resource("pods"), f.resource("configmaps")
			from := pods.ready.Load().sink.version()
			pods.ready.Load().end(why)
			f.until("the pods' session has ended", func() bool { return pods.running.Load() == nil })
			watch := fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=60&resourceVersion=%d", from)
			ended := make(chan int, 1)
			go func() {
				code, _ := f.get("jane", watch)
				ended <- code
			}()
			f.until("a watch is forwarded", func() bool { return f.proxy.forwardedWatches.count() == 1 })
			configmaps.ready.Load().sink.endSession(errWentBack)
			if code := <-ended; code != http.StatusOK {
				t.Errorf("the forwarded watch: %d", code)
			}
			if code, body := f.get("jane", watch); code != http.StatusGone {
				t.Errorf("resumed: %d %s", code, body)
			}
		})
	}
}

// TestUnheldAfterRewind: of a resource that the proxy may not hold, reads are forwarded, though the
// upstream went back. Who has listed there could not go on otherwise.
func TestUnheldAfterRewind(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods", "configmaps"}})
	f.ready()
	pods, configmaps := f.resource("pods"), f.resource("configmaps")
	from := pods.ready.Load().sink.version()
	pods.ready.Load().end(reflector.ErrForbidden)
	f.until("the pods' session has ended", func() bool { return resourceState(pods.notReady.Load()) == stateForbidden })
	configmaps.ready.Load().sink.endSession(errWentBack)
	if code, body := f.get("jane", fmt.Sprintf("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=%d", from)); code != http.StatusOK {
		t.Errorf("a watch: %d %s", code, body)
	}
	if code, body := f.get("jane", "/api/v1/pods"); code != http.StatusOK {
		t.Errorf("a list: %d %s", code, body)
	}
}

// TestRewindAfterOtherEnd: what a session knew that ended for another reason counts as well.
func TestRewindAfterOtherEnd(t *testing.T) {
	var rw rewind
	rw.saw(10)
	rw.saw(7)
	if got := rw.past.Load(); got != 0 {
		t.Errorf("went back from %d before it went back", got)
	}
	rw.wentBack()
	rw.saw(20)
	if got := rw.past.Load(); got != 10 {
		t.Errorf("went back from %d", got)
	}
	rw.wentBack()
	if got := rw.past.Load(); got != 20 {
		t.Errorf("went back from %d the second time", got)
	}
}

// between returns what stands between two texts.
func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}
