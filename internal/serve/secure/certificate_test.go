package secure

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestAuthority checks that a client that trusts the CA accepts each certificate that the CA
// issues. An authority that was written and read back must be able to issue more certificates.
func TestAuthority(t *testing.T) {
	a, err := NewAuthority("ca", 10*time.Hour)
	check.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	for range 3 {
		issued, err := a.Issue("server", time.Hour, "localhost", "127.0.0.1")
		check.NoError(t, err)
		certPEM, keyPEM, err := EncodePair(issued)
		check.NoError(t, err)
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		check.NoError(t, err)
		for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "example.com": false, "127.0.0.2": false} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); (err == nil) != want {
				t.Errorf("%s: %v", host, err)
			}
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now().Add(2 * time.Hour)}); err == nil {
			t.Error("it is accepted after its end")
		}
		if a = AuthorityOf(&pair); a == nil || time.Until(a.Ends()) < 9*time.Hour {
			t.Fatalf("what is read: %v", a)
		}
		if AuthorityOf(&tls.Certificate{Certificate: pair.Certificate[:1], PrivateKey: pair.PrivateKey, Leaf: pair.Leaf}) != nil {
			t.Error("a certificate without its CA has an authority")
		}
	}
}
