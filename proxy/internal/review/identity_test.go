package review

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestSurvivesForwarding checks that an identity that HTTP headers would change is not forwarded.
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

// TestRefusedOfFrontProxy checks a caller whom a front proxy names, and whose name is refused. The
// clients' CA may have signed the front proxy's certificate too, but the caller must not be
// authenticated as the front proxy. The caller must not be authenticated by a token either, because
// kube-apiserver would use the name that the front proxy sends.
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
		a := &Authenticator{localTTL: time.Hour, tokenAnswers: newAnswerCache(1, time.Hour)}
		jane := &user.DefaultInfo{Name: "jane"}
		a.tokenAnswers.add(jane, TokenID(r), cachedAnswer{user: jane, at: time.Now()})
		a.cas.Store(&callerCAs{frontProxies: of(named), clients: of("front-proxy")})
		if c, err := a.ByCertificate(r); c != nil || err == nil {
			t.Errorf("%q is %+v, %v", named, c, err)
		}
		if c, d := a.Authenticate(r, Options{}); c != nil || d != Deny || !a.Unauthenticated(r) {
			t.Errorf("%q with a token is %+v, %d", named, c, d)
		}
	}
}
