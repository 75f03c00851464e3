package proxy

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// block makes the upstream block the proxy's own requests for this path, and releases the requests
// that were blocked before. Empty: it blocks none.
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

// TestReadyWithout checks that the replica is ready although a resource cannot be cached: it is
// missing, forbidden, aggregated, or the upstream fails to list or describe it. The proxy forwards
// the resource's reads, and /readyz names the resource.
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
	u.set(func() { u.forbidden, u.failing = "/api/v1/configmaps", "/apis/example.net/v1" })
	broken, listsSecrets := atomic.Bool{}, apiserver.Match("list", "secrets")
	broken.Store(true)
	u.faults.Add(apiserver.Rule{
		Match: func(r *http.Request) bool { return broken.Load() && listsSecrets(r) }, Err: apierrors.NewInternalError(errors.New("no conversion")),
	})
	wait := timing(func(w *timeouts) { w.Restart = 10 * time.Millisecond })
	tp := startProxy(t, u, Options{timeouts: wait, Resources: []string{
		"pods", "widgets.v1.example.com", "gadgets.example.org", "deployments.v1.apps", "jobs.v1.batch", "configmaps", "secrets", "gizmos.v1.example.net",
	}})
	tp.ready()
	_, body := tp.get("jane", "/readyz?verbose")
	for _, want := range []string{
		"[+]resource/pods ok\n",
		"[+]resource/widgets.example.com forwarded: missing\n", "[+]resource/gadgets.example.org forwarded: missing\n",
		"[+]resource/deployments.apps forwarded: forbidden\n", "[+]resource/jobs.batch forwarded: aggregated\n",
		"[+]resource/configmaps forwarded: forbidden\n",
		"[+]resource/secrets forwarded: failing\n", "[+]resource/gizmos.example.net forwarded: failing\n",
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
		`weir_proxy_resource_state{group="",resource="secrets",state="failing"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
	u.forwarded("")
	if code, _ := tp.get("jane", "/api/v1/configmaps?resourceVersion=0"); code != http.StatusForbidden || len(u.forwarded("/api/v1/configmaps")) != 1 {
		t.Errorf("it is not forwarded: %d", code)
	}
	// When a resource is defined, or can be listed again, the proxy caches it.
	define(tp)
	broken.Store(false)
	tp.until("widgets and secrets are cached", func() bool {
		_, body := tp.get("jane", "/readyz?verbose")
		return strings.Contains(body, "[+]resource/widgets.example.com ok\n") && strings.Contains(body, "[+]resource/secrets ok\n")
	})
}

// TestNotReadyAfterAnOutage checks a resource that the upstream fails to list. The resource does
// not delay readiness while the upstream itself is healthy. When the upstream is not healthy, the
// resource delays readiness again.
func TestNotReadyAfterAnOutage(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "secrets"), Err: apierrors.NewInternalError(errors.New("not well"))})
	wait := timing(func(w *timeouts) { w.Restart = 10 * time.Millisecond })
	tp := startProxy(t, u, Options{timeouts: wait, Resources: []string{"secrets"}})
	says := func(line string) func() bool {
		return func() bool {
			_, body := tp.get("jane", "/readyz?verbose")
			return strings.Contains(body, line)
		}
	}
	tp.until("secrets fail", says("[+]resource/secrets forwarded: failing\n"))
	u.refuseReviews(http.StatusInternalServerError)
	tp.until("secrets delay readiness again", says("[-]resource/secrets failed: being read\n"))
}

// TestNotReadyWhileRead checks that a replica is not ready during its first load, so that it
// receives no requests that it could only forward.
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
	u.block("")
	tp.ready()
	// A resource that has been cached once does not delay readiness again: otherwise all replicas
	// would be unready at the same time.
	res := tp.server.mirror.All()[0]
	u.block("/api/v1/pods")
	res.Refuse(feed.ErrRelistTooLarge)
	tp.until("it is being read again", func() bool { return res.State().Standing() == mirror.StandingLoading })
	tp.says(http.StatusOK, "[+]resource/pods forwarded: being read\n", "jane", "/readyz?verbose")
	u.block("")
}

// TestNotReadyWithoutIdentity checks that a replica is not ready if it cannot get reviews of
// callers.
func TestNotReadyWithoutIdentity(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	u.refuseReviews(http.StatusForbidden)
	tp.until("/readyz says so", func() bool {
		code, body := tp.get("jane", "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-]identity failed") && strings.Contains(body, "[+]upstream ok")
	})
	u.setFault(nil)
	tp.ready()
}

// TestDeletedDefinition checks that the proxy forwards reads of a resource as soon as the upstream
// answers that the resource does not exist. The session, which caches the resource, continues for
// some more attempts, because an API server that lags may have answered. When the upstream serves
// the resource again, the proxy answers reads of it.
func TestDeletedDefinition(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	const path = "/api/v1/pods"
	sess := tp.resource("pods").Serving()
	u.set(func() { u.missing = path })
	u.tls.CloseClientConnections()
	tp.until("the upstream has said so", func() bool { return errors.Is(sess.Reflector().Status().Err, reflector.ErrUnknownResource) })
	u.forwarded("")
	for _, query := range []string{"?resourceVersion=0", "?resourceVersion=0&watch=true"} {
		tp.want(http.StatusNotFound, "jane", path+query)
	}
	if tp.resource("pods").Serving() != sess {
		t.Fatal("the session has ended meanwhile")
	}
	u.set(func() { u.missing = "" })
	tp.until("the upstream has it again", func() bool { return sess.Reflector().Status().Err == nil || tp.resource("pods").Serving() != sess })
	tp.ready()
	u.forwarded("")
	tp.until("the proxy answers", func() bool {
		code, _ := tp.get("jane", path+"?resourceVersion=0")
		return code == http.StatusOK && len(u.forwarded(path)) == 0
	})
}
