package monitoring

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

// proxies runs a proxy with an informer as a client, and a client that sends LISTs of cached and
// uncached resources. It returns the address of the proxy's metrics.
func proxies(t *testing.T) (address string) {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{Pods: 100, Seed: 1, Churn: 100})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	upstream := httptest.NewServer(reviewing{server})
	t.Cleanup(upstream.Close)
	p, err := proxy.New(t.Context(), proxy.Options{
		Upstream: &rest.Config{Host: upstream.URL}, Resources: []string{"pods", "configmaps"}, Authentication: proxy.Authentication{SkipLookup: true},
	})
	check.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	check.NoError(t, p.Start())
	config := &rest.Config{Host: p.URL(), BearerToken: "jane", TLSClientConfig: rest.TLSClientConfig{CAData: p.CAData()}}
	inf, err := weir.NewInformer[*corev1.Pod](config, weir.Options{})
	check.NoError(t, err)
	run(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	transport, err := rest.TransportFor(config)
	check.NoError(t, err)
	get := func(ctx context.Context, path string, to io.Writer) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+path, nil)
		if err != nil {
			return
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(to, resp.Body)
	}
	run(t, func(ctx context.Context) {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/api/v1/nodes", "/api/v1/configmaps?resourceVersion=0"} {
				get(ctx, path, io.Discard)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { get(r.Context(), "/metrics", w) }))
	t.Cleanup(web.Close)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(transport) })
	return web.Listener.Addr().String()
}

// reviewing is an upstream API server that authenticates every token as jane, and allows every
// request.
type reviewing struct{ next http.Handler }

func (h reviewing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		o := &authenticationv1.TokenReview{}
		o.APIVersion, o.Kind = "authentication.k8s.io/v1", "TokenReview"
		o.Status.Authenticated, o.Status.User.Username = true, "jane"
		answer = o
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		o := &authorizationv1.SubjectAccessReview{}
		o.APIVersion, o.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		o.Status.Allowed = true
		answer = o
	default:
		h.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}
