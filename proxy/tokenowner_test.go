package proxy

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/seats"
)

const (
	robot   = "system:serviceaccount:kube-system:robot"
	someGet = "/api/v1/namespaces/default/pods/none"
)

// flowOf returns the flow of a request with a token.
func (tp *testProxy) flowOf(path, token string) seats.Flow {
	r := &http.Request{Method: http.MethodPut, URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {"Bearer token-" + token}}}
	return tp.server.flowOf(r, request.InfoOf(r.Method, r.URL))
}

// TestSeatsByUser checks that flow control counts all requests of a user together (in one flow),
// even if they have different tokens of the user. This includes tokens that the proxy knows only
// from forwarded requests, even if these were answered with 404. The flow of a user of the control
// plane has the control plane's priority.
func TestSeatsByUser(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	for token, want := range map[string]struct {
		path string
		code int
		flow seats.Flow
	}{
		"jane":   {"/api", http.StatusOK, seats.Flow{Level: seats.Everyone, Caller: "user jane"}},
		"jane~1": {"/api", http.StatusOK, seats.Flow{Level: seats.Everyone, Caller: "user jane"}},
		robot:    {"/api", http.StatusOK, seats.Flow{Level: seats.System, Caller: "user " + robot}},
		"john":   {someGet, http.StatusNotFound, seats.Flow{Level: seats.Everyone, Caller: "user john"}},
	} {
		tp.want(want.code, token, want.path)
		tp.until("it is known whose it is", func() bool { return tp.flowOf(someGet, token) == want.flow })
	}
	u.wantForwarded(4, "/api")
}

// TestOwnerOfRejectedToken checks that a token remains known after a 401 from a server behind the
// upstream. After a 401 from the upstream itself, it is unknown until the upstream accepts it
// again; then the proxy looks up the token's owner again.
func TestOwnerOfRejectedToken(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	known := func() bool {
		return tp.flowOf(someGet, robot) == seats.Flow{Level: seats.System, Caller: "user " + robot}
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
