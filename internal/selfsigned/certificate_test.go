package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestNew: clients that trust the certificate accept it for its hosts and for no other, as long as
// it is valid.
func TestNew(t *testing.T) {
	certPEM, keyPEM, err := New("server", time.Hour, "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "example.com": false, "127.0.0.2": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
		if accepted := err == nil; accepted != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now().Add(2 * time.Hour)}); err == nil {
		t.Error("it is accepted after its end")
	}
}
