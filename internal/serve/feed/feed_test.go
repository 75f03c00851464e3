package feed

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestFeed checks that a feed lists and watches an API server, proves that it is current, and
// proves nothing after Run has returned.
func TestFeed(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Pods: 3, BookmarkInterval: time.Second})
	check.NoError(t, err)
	defer server.Close()
	tls := httptest.NewTLSServer(server)
	defer tls.Close()
	defer tls.CloseClientConnections()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})
	listed := make(chan struct{})
	f, err := New(Config{
		Upstream: &rest.Config{Host: tls.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, Encoding: wire.JSON, ProofTimeout: time.Minute,
		Cache:    watchcache.Config{Resource: watchcache.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"}},
		OnListed: func() { close(listed) },
	})
	check.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the test is late"))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-listed
	if n := f.Store().Len(); n != 3 || f.Version() == 0 {
		t.Errorf("%d objects, at %d", n, f.Version())
	}
	testenv.Eventually(t, ctx, "the feed is current", func() bool { return f.ProveCurrent(ctx) })
	newest, err := f.NewestVersion(ctx)
	if err != nil || !f.ProveVersion(ctx, newest) || f.WaitVersion(ctx, newest) != nil || time.Since(f.LastHeard()) > time.Hour || f.Bytes() <= 0 {
		t.Errorf("the upstream is at %d, %v; the feed at %d, heard %v, %d bytes", newest, err, f.Version(), f.LastHeard(), f.Bytes())
	}
	if now := resourceversion.Number(f.Reflector().Status().ResourceVersion); now > f.Version() {
		t.Errorf("the reflector is at %d, the feed at %d", now, f.Version())
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("Run returned no cause")
	}
	if _, err := f.NewestVersion(t.Context()); f.ProveCurrent(t.Context()) || err == nil {
		t.Error("a proof, or a query, after the end")
	}
}

// TestNewRefuses checks that New returns an error for a configuration without a resource.
func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{Upstream: &rest.Config{Host: "https://127.0.0.1:1"}}); err == nil {
		t.Error("a feed of no resource")
	}
}
