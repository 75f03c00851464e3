package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/serve/secure"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/process"
)

// TestTLS checks that a client that verifies the server's certificate with the published CA, or
// with the file that the user has chosen, can read by each name of this machine.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	authority, err := secure.NewAuthority("ca", time.Hour)
	check.NoError(t, err)
	pair, err := authority.Issue("server", time.Hour, "localhost", "127.0.0.1")
	check.NoError(t, err)
	certPEM, keyPEM, err := secure.EncodePair(pair)
	check.NoError(t, err)
	check.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	check.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	for _, spec := range []process.ServerSpec{{Pods: 1, TLS: true}, {Pods: 1, TLS: true, Listen: "0.0.0.0:0", CertFile: cert, KeyFile: key}} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		ready := make(chan process.ServerReady, 1)
		go func() {
			ended <- serve(ctx, spec, func(r process.ServerReady) error { ready <- r; return nil })
		}()
		var r process.ServerReady
		select {
		case r = <-ready:
		case err := <-ended:
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(r.CA) {
			t.Fatalf("no certificates in %q", r.CA)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		client := &http.Client{Transport: transport}
		_, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL, "https://"))
		check.NoError(t, err)
		for _, url := range []string{r.URL, "https://localhost:" + port} {
			resp, err := client.Get(url + "/api/v1/pods")
			check.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			check.NoError(t, err)
			if resp.Body.Close(); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"kind":"PodList"`) {
				t.Errorf("%s: %s %s", url, resp.Status, body)
			}
		}
		transport.CloseIdleConnections()
		if _, err := http.Get(r.URL); err == nil {
			t.Error("a client without the CA accepts the certificate")
		}
		cancel()
		check.NoError(t, <-ended)
	}
}

// TestLog checks that a log is bounded: a line that would exceed the limit starts a new file.
func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	check.NoError(t, os.WriteFile(name, []byte("0123\n"), 0o600))
	l, err := openLog(name, 12)
	check.NoError(t, err)
	for _, line := range []string{"abcd\n", "efgh\n", "a long line, longer than the limit\n", "ijkl\n", "mnop\n"} {
		n, err := l.Write([]byte(line))
		check.NoError(t, err)
		check.Equal(t, n, len(line), "written")
		want := map[string]string{
			"abcd\n": "0123\nabcd\n", "efgh\n": "efgh\n|0123\nabcd\n", "mnop\n": "ijkl\nmnop\n|a long line, longer than the limit\n",
		}[line]
		got, err := os.ReadFile(name)
		check.NoError(t, err)
		if old, err := os.ReadFile(name + ".1"); err == nil {
			got = append(append(got, '|'), old...)
		}
		if want != "" {
			check.Equal(t, string(got), want, "after "+line)
		}
	}
	check.NoError(t, l.Close())
	if _, err := openLog(filepath.Join(name, "x"), 1); err == nil {
		t.Error("a log in no directory")
	}
	check.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(name), "gone"), 0o700))
	name = filepath.Join(filepath.Dir(name), "gone", "log")
	l, err = openLog(name, 12)
	check.NoError(t, err)
	write := func() error {
		_, err := l.Write([]byte("longer than the limit\n"))
		return err
	}
	check.NoError(t, write())
	check.NoError(t, os.RemoveAll(filepath.Dir(name)))
	for range 2 {
		check.ErrorIs(t, write(), fs.ErrNotExist)
	}
	check.NoError(t, os.Mkdir(filepath.Dir(name), 0o700))
	check.NoError(t, write()) // in a new file
	check.NoError(t, l.Close())
	got, err := os.ReadFile(name)
	check.NoError(t, err)
	check.Equal(t, string(got), "longer than the limit\n", "the new file")
}

// TestCertificateAddress checks that the certificate is valid for the address in the server's URL,
// also if --listen names a host.
func TestCertificateAddress(t *testing.T) {
	cfg, _, err := certificate(process.ServerSpec{Listen: "some.host:1"}, "192.0.2.7")
	check.NoError(t, err)
	for _, host := range []string{"192.0.2.7", "some.host", "localhost", "127.0.0.1"} {
		check.NoError(t, cfg.Certificates[0].Leaf.VerifyHostname(host))
	}
}
