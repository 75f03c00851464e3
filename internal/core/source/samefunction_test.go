//go:build !weir_safe

package source_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestSourcesShareConnections checks that the WATCHes of equal configs share one connection, even
// if the configs have a Proxy or a Dial. WATCHes of different configs must not share a connection.
func TestSourcesShareConnections(t *testing.T) {
	var dialer net.Dialer
	dial := dialer.DialContext
	other := func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	for _, tc := range []struct {
		name   string
		change func(cfg *rest.Config, i int)
		want   int64
	}{
		{"neither", func(*rest.Config, int) {}, 1},
		{"proxy", func(cfg *rest.Config, _ int) { cfg.Proxy = direct }, 1},
		{"dial", func(cfg *rest.Config, _ int) { cfg.Dial = dial }, 1},
		{"both, and others' wrappers", func(cfg *rest.Config, _ int) {
			cfg.Proxy, cfg.Dial = direct, dial
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return rt })
		}, 1},
		{"two dials", func(cfg *rest.Config, i int) {
			if cfg.Dial = dial; i > 2 {
				cfg.Dial = other
			}
		}, 2},
		{"two server names", func(cfg *rest.Config, i int) {
			if cfg.Proxy = direct; i > 2 {
				cfg.ServerName = "example.com"
			}
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, connections := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				answer(w, http.StatusOK, wire.ContentTypeJSON, "")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			for i := range 5 {
				cfg := rest.CopyConfig(cfg)
				tc.change(cfg, i)
				src, err := source.New(cfg, pods, source.Options{})
				check.NoError(t, err)
				defer src.CloseIdleConnections()
				watch, err := src.Watch(t.Context(), metav1.ListOptions{})
				check.NoError(t, err)
				defer watch.Close()
			}
			check.Equal(t, connections.Load(), tc.want, "connections")
		})
	}
}

// TestOf checks that a Source and the one that its Of returns use the same connection.
func TestOf(t *testing.T) {
	var paths []string
	cfg, connections := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		answer(w, http.StatusOK, wire.ContentTypeJSON, "")
	})
	cfg.Proxy = direct
	src, err := source.New(cfg, pods, source.Options{})
	check.NoError(t, err)
	defer src.CloseIdleConnections()
	nodes := source.Resource{GVR: pods.GVR.GroupVersion().WithResource("nodes")}
	other, err := src.Of(nodes)
	check.NoError(t, err)
	if _, err := src.Of(source.Resource{}); err == nil {
		t.Error("a resource without a name is taken")
	}
	for _, src := range []*source.REST{src, other} {
		watch, err := src.Watch(t.Context(), metav1.ListOptions{})
		check.NoError(t, err)
		watch.Close()
	}
	if len(paths) != 2 || paths[1] != "/api/v1/nodes" || connections.Load() != 1 {
		t.Errorf("%q over %d connections", paths, connections.Load())
	}
}
