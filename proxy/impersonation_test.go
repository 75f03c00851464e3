package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/apiserver"
)

// TestImpersonationThatHeadersChange: the proxy refuses a request, from any caller, whose
// impersonated name, group, UID or extra would change or vanish in a header.
func TestImpersonationThatHeadersChange(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{})
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

// TestSurvivesForwarding: an identity that headers would change is not forwarded.
func TestSurvivesForwarding(t *testing.T) {
	for _, tt := range []struct {
		who  user.DefaultInfo
		want bool
	}{
		{user.DefaultInfo{Name: "jane doe", UID: "1", Groups: []string{"a\tb", ""}, Extra: map[string][]string{"acme.com/scope": {"é", ""}}}, true},
		{user.DefaultInfo{}, false}, {user.DefaultInfo{Name: " "}, false}, {user.DefaultInfo{Name: "jane\x00"}, false},
		{user.DefaultInfo{Name: "jane", UID: "1\n"}, false}, {user.DefaultInfo{Name: "jane", Groups: []string{"a", "b "}}, false},
		{user.DefaultInfo{Name: "jane", Extra: map[string][]string{"Scope": {"a"}}}, false},
		{user.DefaultInfo{Name: "jane", Extra: map[string][]string{"scope": {"a", "\tb"}}}, false},
	} {
		if got := survivesForwarding(&tt.who); got != tt.want {
			t.Errorf("%+v: %v", tt.who, got)
		}
	}
}

// TestRefusedOfFrontProxy: a caller whom a front proxy names, and who is refused, does not become
// the front proxy, whose certificate the CA of callers may have signed too, and not the user of a
// token: kube-apiserver would take the name.
func TestRefusedOfFrontProxy(t *testing.T) {
	of := func(name string) authenticator.Request {
		return authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		})
	}
	r := &http.Request{
		TLS:    &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}},
		Header: http.Header{"Authorization": {"Bearer good"}},
	}
	for _, named := range []string{"joe ", user.Anonymous} {
		a := &authentication{localTTL: time.Hour, tokenAnswers: newAnswerCache(1, time.Hour)}
		jane := &user.DefaultInfo{Name: "jane"}
		a.tokenAnswers.add(jane, tokenID(r), cachedAnswer{user: jane, at: time.Now()})
		a.cas.Store(&callerCAs{frontProxies: of(named), clients: of("front-proxy")})
		if c, err := a.byCertificate(r); c != nil || err == nil {
			t.Errorf("%q is %+v, %v", named, c, err)
		}
		if c, d := a.authenticate(r, reviewOptions{}); c != nil || d != decisionDeny || !a.unauthenticated(r) {
			t.Errorf("%q with a token is %+v, %d", named, c, d)
		}
	}
}

// TestEmptyImpersonationRefused: a request that impersonates the empty name would have the proxy's
// own permissions, so it is not sent.
func TestEmptyImpersonationRefused(t *testing.T) {
	u := passTo(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%v came", r.Header) })
	for _, protocol := range []string{"", "echo/1"} {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		if protocol != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", protocol)
		}
		w := httptest.NewRecorder()
		if u.serve(w, r, &transport.ImpersonationConfig{}); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%q: %d", protocol, w.Code)
		}
	}
}

// TestNodesGroups: kube-apiserver may add system:nodes to a node that is impersonated without
// groups, if the proxy's permissions allow that. No caller gets this group by the name of a node,
// and no caller needs another permission.
func TestNodesGroups(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{})
	const node = "system:node:worker"
	named := impersonationOf(&user.DefaultInfo{Name: node, Groups: []string{user.AllAuthenticated}})
	if !slices.Equal(named.Groups, []string{user.AllAuthenticated}) {
		t.Errorf("a front proxy's node is in %q", named.Groups)
	}
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
