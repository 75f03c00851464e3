package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/apiserver"
)

// block makes the upstream not answer the proxy's own requests for a resource, and those that
// have waited; empty: it answers all.
func (u *fakeUpstream) block(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unblocked != nil {
		close(u.unblocked)
		u.unblocked = nil
	}
	if u.blockedPath = path; path != "" {
		u.unblocked = make(chan struct{})
	}
}

// TestReadyWithout: a resource that is missing, forbidden or aggregated is forwarded, and the
// replica is ready all the same; it says which.
func TestReadyWithout(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.aggregate(func(name string) (int, string) {
		switch name {
		case "v1.apps":
			return http.StatusForbidden, ""
		case "v1.batch":
			return http.StatusOK, "elsewhere"
		}
		return http.StatusOK, ""
	})
	u.mu.Lock()
	u.forbidden = "/api/v1/configmaps"
	u.mu.Unlock()
	tp := startProxy(t, u, Options{Resources: []string{"pods", "widgets.v1.example.com", "gadgets.example.org", "deployments.v1.apps", "jobs.v1.batch", "configmaps"}})
	tp.ready()
	_, body := tp.get("jane", "/readyz?verbose")
	for _, want := range []string{
		"[+]resource/pods ok\n",
		"[+]resource/widgets.example.com forwarded: missing\n", "[+]resource/gadgets.example.org forwarded: missing\n",
		"[+]resource/deployments.apps forwarded: forbidden\n", "[+]resource/jobs.batch forwarded: aggregated\n",
		"[+]resource/configmaps forwarded: forbidden\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	_, metrics := tp.get("jane", "/metrics")
	for _, want := range []string{
		`weir_proxy_resource_state{group="",resource="pods",state="current"} 1`,
		`weir_proxy_resource_state{group="batch",resource="jobs",state="aggregated"} 1`,
		`weir_proxy_resource_state{group="example.org",resource="gadgets",state="missing"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
	u.forwarded("")
	if code, _ := tp.get("jane", "/api/v1/configmaps?resourceVersion=0"); code != http.StatusForbidden || len(u.forwarded("/api/v1/configmaps")) != 1 {
		t.Errorf("it is not forwarded: %d", code)
	}
	// One that comes to be is cached then.
	define(tp)
	tp.until("widgets are cached", func() bool {
		_, body := tp.get("jane", "/readyz?verbose")
		return strings.Contains(body, "[+]resource/widgets.example.com ok\n")
	})
}

// TestNotReadyWhileRead: a replica that is reading for the first time is not ready, so that nobody
// is sent there to be forwarded; but not for ever.
func TestNotReadyWhileRead(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.block("/api/v1/pods")
	wait := defaultTimeouts
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: wait})
	tp.until("it lists", func() bool { u.mu.Lock(); defer u.mu.Unlock(); return u.kept > 0 })
	code, body := tp.get("jane", "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]resource/pods failed: being read") || !strings.Contains(body, "[+]identity ok") {
		t.Errorf("%d %s", code, body)
	}
	res := tp.server.resources.all()[0]
	if now := time.Now(); !res.delaysReadiness(now) || !res.delaysReadiness(now.Add(initialLoadTimeout/2)) || res.delaysReadiness(now.Add(initialLoadTimeout)) {
		t.Error("how long it delays the replica")
	}
	u.block("")
	tp.ready()
	// Once it was cached, it delays nobody any more: all replicas would be away at once.
	res = tp.server.resources.all()[0]
	u.block("/api/v1/pods")
	res.ready.Load().sink.endSession(errRelistTooLarge)
	tp.until("it is being read again", func() bool { return res.state() == stateLoading })
	if code, body := tp.get("jane", "/readyz?verbose"); code != http.StatusOK || !strings.Contains(body, "[+]resource/pods forwarded: being read\n") {
		t.Errorf("%d %s", code, body)
	}
	u.block("")
}

// TestNotReadyWithoutIdentity: a replica that cannot ask about callers is of no use to anybody.
func TestNotReadyWithoutIdentity(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	u.refuseReviews(http.StatusForbidden)
	tp.until("/readyz says so", func() bool {
		code, body := tp.get("jane", "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-]identity failed") && strings.Contains(body, "[+]upstream ok")
	})
	u.setFault(nil)
	tp.ready()
}

// TestRestartDelay: a resource that is defined in another way is read anew soon, and one that
// cannot be cached is tried ever more rarely.
func TestRestartDelay(t *testing.T) {
	var delay time.Duration
	for i, tt := range []struct {
		wasReady bool
		want     time.Duration
	}{
		{false, time.Second},
		{false, 2 * time.Second},
		{false, 4 * time.Second},
		{false, 5 * time.Second},
		{true, time.Second},
		{true, time.Second},
		{false, 2 * time.Second},
	} {
		if delay = restartDelay(time.Second, delay, tt.wasReady); delay != tt.want {
			t.Errorf("session %d: %v, not %v", i+1, delay, tt.want)
		}
	}
}
