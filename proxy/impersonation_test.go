package proxy

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/apiserver"
)

// TestImpersonationThatHeadersChange checks requests that impersonate a name, group, UID or extra
// that would change or disappear in a header. The proxy refuses them, from any caller.
func TestImpersonationThatHeadersChange(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	carol := tp.clientWith(tp.authCA.Issue(t, "carol"))
	for _, headers := range [][]string{
		{"Impersonate-User", " "}, {"Impersonate-User", "joe "}, {"Impersonate-User", "joe", "Impersonate-Group", "system:masters\t"},
		{"Impersonate-User", "joe", "Impersonate-Uid", " 1"}, {"Impersonate-User", "joe", "Impersonate-Extra-Scope", "all "},
	} {
		for name, client := range map[string]*http.Client{"certificate": carol, "token": tp.client} {
			resp := tp.open(client, http.MethodGet, "/version", append(headers, "Authorization", "Bearer token-jane")...)
			if passed := u.forwarded("/version"); resp.StatusCode != http.StatusBadRequest || len(passed) > 0 {
				t.Errorf("%q by %s: %s, upstream: %v", headers, name, resp.Status, passed)
			}
		}
	}
	resp := tp.open(carol, http.MethodGet, "/version", "Impersonate-User", "joe", "Impersonate-Extra-%53cope", "all")
	if passed := u.forwarded("/version"); resp.StatusCode != http.StatusBadRequest || len(passed) > 0 {
		t.Errorf("an extra that is not in lower case: %s, upstream: %v", resp.Status, passed)
	}
}

// TestEmptyImpersonationRefused checks that the proxy does not send a request that impersonates the
// empty name, because the upstream would give such a request the proxy's own permissions.
func TestEmptyImpersonationRefused(t *testing.T) {
	u := passTo(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%v came", r.Header) })
	for _, protocol := range []string{"", "echo/1"} {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		if protocol != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", protocol)
		}
		w := httptest.NewRecorder()
		if u.serve(w, r, &forwarding{as: &transport.ImpersonationConfig{}, answer: &responseWriter{ResponseWriter: w}}); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%q: %d", protocol, w.Code)
		}
	}
}

// TestNodesGroups checks a caller whose certificate has the name of a node. When kube-apiserver
// impersonates a node without groups, it may add system:nodes, if the proxy's permissions allow
// that. The caller must not get this group, and must not need another permission.
func TestNodesGroups(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	const node = "system:node:worker"
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes != nil && s.ResourceAttributes.Resource == "groups"
	})
	for name, want := range map[string][]string{node: {user.AllAuthenticated}, "system:serviceaccount:mine:robot": nil, "joe": nil} {
		tp.open(tp.clientWith(tp.authCA.Issue(t, "carol")), http.MethodGet, "/version", "Impersonate-User", name)
		passed := u.forwarded("/version")
		if len(passed) != 1 || !slices.Equal(passed[0].header.Values("Impersonate-Group"), want) {
			t.Errorf("%s: %v", name, passed)
		}
	}
}
