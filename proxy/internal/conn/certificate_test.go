package conn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

func leaf(t *testing.T, c *Certificate) *x509.Certificate {
	t.Helper()
	pair, err := c.get(&tls.ClientHelloInfo{})
	check.NoError(t, err)
	return pair.Leaf
}

// TestCertDir checks that a certificate in a directory is used again, until it lacks a host that it
// must be valid for.
func TestCertDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	first, err := SelfSigned(dir, "127.0.0.1:0", nil, nil)
	check.NoError(t, err)
	second, err := SelfSigned(dir, "127.0.0.1:0", nil, nil)
	check.NoError(t, err)
	if !leaf(t, first).Equal(leaf(t, second)) {
		t.Error("made again without a reason")
	}
	hosts := []string{"weir.kube-system.svc", "10.0.0.1"}
	other, err := SelfSigned(dir, "127.0.0.1:0", hosts, nil)
	check.NoError(t, err)
	for _, host := range append(hosts, "localhost", "127.0.0.1") {
		if err := leaf(t, other).VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, keyName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Changed files are read again.
	given, err := ReadCertificate(filepath.Join(dir, certName), filepath.Join(dir, keyName))
	check.NoError(t, err)
	before := leaf(t, given)
	check.NoError(t, other.renew())
	check.NoError(t, os.Chtimes(given.certFile, time.Time{}, time.Now().Add(time.Second)))
	given.checkedAt = time.Time{}
	if leaf(t, given).Equal(before) {
		t.Error("the certificate is still the old one")
	}
}

// TestRenewal checks that a certificate of the proxy is renewed while the process runs. Concurrent
// handshakes must get the same new certificate, and clients must not need a new CA.
func TestRenewal(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "in a directory": filepath.Join(t.TempDir(), "certs")} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testRenewal(t, dir) }) })
	}
}

func testRenewal(t *testing.T, dir string) {
	made := func() (*Certificate, error) { return SelfSigned(dir, "", nil, slog.New(slog.DiscardHandler)) }
	c, err := made()
	check.NoError(t, err)
	first, roots := leaf(t, c), x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CAData())
	const eightMonths = selfSignedValidity * 2 / 3
	time.Sleep(eightMonths - time.Hour)
	if !leaf(t, c).Equal(first) {
		t.Error("it is renewed too early")
	}
	for range 3 {
		before := leaf(t, c)
		time.Sleep(eightMonths)
		var served [8]*x509.Certificate
		var wg sync.WaitGroup
		for i := range served {
			wg.Go(func() { served[i] = leaf(t, c) })
		}
		wg.Wait()
		if served[0].Equal(before) {
			t.Error("it is not renewed")
		}
		for _, cert := range served {
			if _, err := cert.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil || !cert.Equal(served[0]) {
				t.Errorf("%v; the same for all: %t", err, cert.Equal(served[0]))
			}
		}
	}
	if dir == "" {
		return
	}
	again, err := made()
	if err != nil || !leaf(t, again).Equal(leaf(t, c)) || !bytes.Equal(again.CAData(), c.CAData()) {
		t.Errorf("a start makes another: %v", err)
	}
	// A renewed certificate is served even if it cannot be written to its files.
	check.NoError(t, os.RemoveAll(dir))
	check.NoError(t, os.WriteFile(dir, nil, 0o600))
	time.Sleep(selfSignedValidity)
	if _, err := leaf(t, c).Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil {
		t.Error(err)
	}
}
