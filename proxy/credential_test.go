package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestHeadOfEndedWatch: a review that two watches share keeps nothing of the request of the first
// but who sent it.
func TestHeadOfEndedWatch(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	const path = "/api/v1/pods?watch=true&resourceVersion=0"
	first := tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane", "X-Padding", strings.Repeat("x", 100<<10))
	second := tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
	if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK {
		t.Fatal(first.Status, second.Status)
	}
	first.Body.Close()
	tp.until("the first has ended", func() bool { return tp.server.seats.Watches.Count() == 1 })
	c := tp.server.rechecker
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reviews) != 2 {
		t.Errorf("%d reviews", len(c.reviews))
	}
	for _, q := range c.reviews {
		h := q.credential.r.Header
		if h.Get("X-Padding") != "" || h.Get("Authorization") != "Bearer token-jane" {
			t.Errorf("it keeps %.200v", h)
		}
	}
}

// TestCredentialOfFrontProxy: whom a front proxy names is the same by the credential that is kept,
// and by an ordinary certificate it is the owner of that.
func TestCredentialOfFrontProxy(t *testing.T) {
	front, clients := newAuthority(t), newAuthority(t)
	var o Options
	o.Authentication = Authentication{SkipLookup: true, RequestHeaderCAFile: front.File, ClientCAFile: clients.File}
	tp := startWith(t, startUpstream(t, apiserver.Options{Pods: 3}), o, clients)
	for name, ca := range map[string]*testenv.Authority{"joe": front, "carol": clients} {
		cert, err := x509.ParseCertificate(ca.Issue(t, "carol").Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{URL: &url.URL{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}, Header: http.Header{
			"X-Remote-User": {"joe"}, "X-Remote-Uid": {"1"}, "X-Remote-Group": {"staff", "other"}, "X-Remote-Extra-Team": {"a"}, "X-Padding": {"x"},
			"Authorization": {"Bearer token-jane"},
		}}
		r = tp.server.authn.withIdentity(r)
		kept := tp.server.authn.credentialOf(r)
		was, err := tp.server.authn.byCertificate(r)
		if err != nil || was == nil || was.user.GetName() != name || kept.token {
			t.Fatalf("%s: %+v, %v, by Token: %v", name, was, err, kept.token)
		}
		now, err := tp.server.authn.byCertificate(kept.r.WithContext(t.Context()))
		if err != nil || now == nil || !reflect.DeepEqual(now.user, was.user) {
			t.Errorf("%s is %+v, %v; was %+v", name, now, err, was.user)
		}
		if h := kept.r.Header; h.Get("X-Padding") != "" || h.Get("Authorization") != "" {
			t.Errorf("%s: it keeps %v", name, h)
		}
	}
}
