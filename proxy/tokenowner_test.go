package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestSeatsByUser: the requests of a user are one flow, by whatever token they come, also if the
// tokens are known only from forwarding; and who runs the cluster is known by that, too.
func TestSeatsByUser(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	const robot = "system:serviceaccount:kube-system:robot"
	of := func(token string) seats.Flow {
		r := &http.Request{Method: http.MethodPut, URL: &url.URL{Path: "/api/v1/namespaces/default/pods/x"}, Header: http.Header{"Authorization": {"Bearer token-" + token}}}
		return tp.server.flowOf(r, request.InfoOf(r.Method, r.URL))
	}
	for token, want := range map[string]seats.Flow{
		"jane": {Level: seats.Everyone, Caller: "user jane"}, "jane~1": {Level: seats.Everyone, Caller: "user jane"}, robot: {Level: seats.System, Caller: "user " + robot},
	} {
		tp.want(http.StatusOK, token, "/api")
		tp.until("it is known whose it is", func() bool { return of(token) == want })
	}
	if n := len(u.forwarded("/api")); n != 3 {
		t.Errorf("%d were forwarded", n)
	}
}

// TestOwnerOfMissedReads: it is learned whose a token is, also if all that comes by it is answered
// 404.
func TestOwnerOfMissedReads(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{})
	const path = "/api/v1/namespaces/default/pods/none"
	tp.want(http.StatusNotFound, "jane", path)
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {"Bearer token-jane"}}}
	want := seats.Flow{Level: seats.Everyone, Caller: "user jane"}
	tp.until("it is known whose it is", func() bool { return tp.server.flowOf(r, request.InfoOf(r.Method, r.URL)) == want })
}

// TestOwnerIsAskedOnce: whose a token is that the upstream lets in is asked once, also if the
// upstream does not say.
func TestOwnerIsAskedOnce(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	var reviews atomic.Int32
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			reviews.Add(1)
		}
		writeStatus(w, http.StatusForbidden)
	})
	for range 5 {
		tp.get("jane", "/api")
	}
	tp.until("it was asked", func() bool { return reviews.Load() > 0 })
	tp.get("jane", "/api")
	if err := tp.server.Close(); err != nil { // which waits for reviews
		t.Error(err)
	}
	if n := reviews.Load(); n != 1 {
		t.Errorf("%d reviews", n)
	}
}

// TestOwnerOfRejectedToken: a 401 of a server behind the upstream takes nothing from a caller.
// After one of the upstream itself, the next request that it lets in has it asked again whose the
// token is.
func TestOwnerOfRejectedToken(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	const robot = "system:serviceaccount:kube-system:robot"
	known := func() bool {
		r := &http.Request{Method: http.MethodPut, URL: &url.URL{Path: "/api/v1/namespaces/default/pods/x"}, Header: http.Header{"Authorization": {"Bearer token-" + robot}}}
		return tp.server.flowOf(r, request.InfoOf(r.Method, r.URL)) == seats.Flow{Level: seats.System, Caller: "user " + robot}
	}
	rejected := func(path string) {
		t.Helper()
		u.setFault(func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusUnauthorized) })
		defer u.setFault(nil)
		tp.want(http.StatusUnauthorized, robot, path)
	}
	for range 2 {
		tp.get(robot, "/api")
		tp.until("it is known whose it is", known)
		for _, path := range []string{"/apis/metrics.k8s.io/v1beta1/reviews", "/api/v1/namespaces/default/services/x/proxy/reviews"} {
			if rejected(path); !known() {
				t.Errorf("unknown after the 401 of %s", path)
			}
		}
		if rejected("/api/v1/reviews"); known() {
			t.Error("known after the upstream's 401")
		}
	}
}
