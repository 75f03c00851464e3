package review

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestCredentialOfToken checks that the credential of a token contains nothing else of its request.
func TestCredentialOfToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil)
	r.Header = http.Header{"Authorization": {"Bearer token-jane"}, "X-Padding": {"x"}}
	kept := (&Authenticator{}).credentialOf(r)
	if h := kept.r.Header; !kept.token || h.Get("X-Padding") != "" || h.Get("Authorization") != "Bearer token-jane" || kept.r.URL.Path != "" || kept.r.Body != nil {
		t.Errorf("it keeps %+v", kept.r)
	}
}

// TestCredentialOfFrontProxy checks that a credential identifies the same caller as its request:
// the user whom a front proxy names, or the owner of an ordinary certificate.
func TestCredentialOfFrontProxy(t *testing.T) {
	front, clients := newCA(t), newCA(t)
	client, err := kubernetes.NewForConfig(&rest.Config{})
	check.NoError(t, err)
	a, err := NewAuthenticator(t.Context(), &Config{
		Client: client, Timeout: time.Minute, Breaker: &Breaker{}, Seats: newReviewSeats(time.Minute), Log: slog.New(slog.DiscardHandler),
		Trust: Trust{
			SkipLookup: true, RequestHeaderCAFile: front.File, ClientCAFile: clients.File, TokenTTL: time.Minute,
			UserHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
		},
	})
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer a.Run(ctx) // ends what NewAuthenticator has started
	for name, ca := range map[string]*testenv.Authority{"joe": front, "carol": clients} {
		cert, err := x509.ParseCertificate(ca.Issue(t, "carol").Certificate[0])
		check.NoError(t, err)
		r := &http.Request{URL: &url.URL{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}, Header: http.Header{
			"X-Remote-User": {"joe"}, "X-Remote-Uid": {"1"}, "X-Remote-Group": {"staff", "other"}, "X-Remote-Extra-Team": {"a"}, "X-Padding": {"x"},
			"Authorization": {"Bearer token-jane"},
		}}
		r = a.WithIdentity(r)
		kept := a.credentialOf(r)
		was, err := a.ByCertificate(r)
		if err != nil || was == nil || was.GetName() != name || kept.token {
			t.Fatalf("%s: %+v, %v, by Token: %v", name, was, err, kept.token)
		}
		now, err := a.ByCertificate(kept.r.WithContext(t.Context()))
		if err != nil || now == nil || !reflect.DeepEqual(now, was) {
			t.Errorf("%s is %+v, %v; was %+v", name, now, err, was)
		}
		if h := kept.r.Header; h.Get("X-Padding") != "" || h.Get("Authorization") != "" {
			t.Errorf("%s: it keeps %v", name, h)
		}
	}
}

// newCA returns a certificate authority whose certificate is in a file of the test.
func newCA(t *testing.T) *testenv.Authority {
	t.Helper()
	ca, err := testenv.NewAuthority(filepath.Join(t.TempDir(), "ca.crt"))
	check.NoError(t, err)
	return ca
}
