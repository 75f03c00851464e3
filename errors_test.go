package weir_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestErrorTexts checks which of this package's errors each call returns. The error's text must
// name the index or the resourceVersion that was passed, and must not name a Go package.
func TestErrorTexts(t *testing.T) {
	inf, err := weir.NewInformer[*corev1.ConfigMap](&rest.Config{}, weir.Options{Indexes: map[string]weir.Index{"app": weir.ByLabel("app")}})
	check.NoError(t, err)
	var unknown error
	for _, err := range inf.By("none", "x") {
		unknown = err
	}
	for _, c := range []struct {
		err, is error
		text    string
	}{
		{inf.AddIndex("app", weir.ByLabel("x")), weir.ErrIndexExists, `index "app": index exists`},
		{unknown, weir.ErrUnknownIndex, `configmaps: index "none": unknown index`},
		{inf.WaitForResourceVersion(t.Context(), "abc"), weir.ErrInvalidResourceVersion, `configmaps: not at resourceVersion abc: resourceVersion "abc": not an integer`},
	} {
		if !errors.Is(c.err, c.is) || c.err.Error() != c.text {
			t.Errorf("%v, want %s", c.err, c.text)
		}
	}
}

// TestHandlerWaitWrapsContextError ends the context of a Registration.WaitForSync before the
// handler has synced. The error must wrap the context's error and its cause.
func TestHandlerWaitWrapsContextError(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "x")
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{})
	release := make(chan struct{})
	reg := handle(t, inf, func(context.Context, weir.Event[*corev1.ConfigMap]) { <-release })
	defer close(release)
	check.NoError(t, inf.WaitForSync(ctx))
	cause := errors.New("the rollout is over")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	if err := reg.WaitForSync(ended); !errors.Is(err, weir.ErrNotSynced) || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("the wait says %v", err)
	}
}

// TestDiscoveryErrors checks that Err returns the error of a failed discovery of a kind
// immediately. If the answer has a Retry-After, the informer must not repeat the discovery before
// that time has passed.
func TestDiscoveryErrors(t *testing.T) {
	refuse := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			http.Error(w, "not now", code)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"too many requests": {refuse(http.StatusTooManyRequests), weir.ErrTooManyRequests},
		"unavailable":       {refuse(http.StatusServiceUnavailable), weir.ErrServer},
		"malformed":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"resources":[{`)) }, weir.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/version" {
					_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
					return
				}
				asked.Add(1)
				tc.answer(w, r)
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			inf, stop := start[*Widget](t, ctx, &rest.Config{Host: server.URL}, weir.Options{Scheme: widgetScheme()})
			defer stop()
			check.ErrorIs(t, inf.WaitForErr(ctx), tc.want, "the error")
			if n := asked.Load(); n != 1 && tc.want != weir.ErrMalformed {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestNilFunctions checks that a call with a nil handler or index function returns
// ErrInvalidOptions.
func TestNilFunctions(t *testing.T) {
	cfg := &rest.Config{Host: "http://127.0.0.1:1"}
	inf, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{})
	check.NoError(t, err)
	f := weir.NewFactory(t.Context(), cfg)
	defer f.Shutdown()
	lease := acquire[*corev1.Pod](t, f, weir.Options{})
	index := weir.ByFunc[*corev1.Pod](nil)
	indexed := weir.Options{Indexes: map[string]weir.Index{"nil": index}}
	for name, pass := range map[string]func() error{
		"Informer.Handle": func() error {
			_, err := inf.Handle(nil, weir.HandlerOptions[*corev1.Pod]{})
			return err
		},
		"SharedInformer.Handle": func() error {
			_, err := lease.Handle(nil, weir.HandlerOptions[*corev1.Pod]{})
			return err
		},
		"Informer.AddIndex":       func() error { return inf.AddIndex("nil", index) },
		"SharedInformer.AddIndex": func() error { return lease.AddIndex("nil", index) },
		"NewInformer": func() error {
			_, err := weir.NewInformer[*corev1.Pod](cfg, indexed)
			return err
		},
		"Use": func() error {
			_, err := weir.Acquire[*corev1.Pod](f, indexed)
			return err
		},
		"Use of another informer": func() error {
			opts := indexed
			opts.Namespaces = []string{"d"}
			_, err := weir.Acquire[*corev1.Pod](f, opts)
			return err
		},
	} {
		check.ErrorIs(t, pass(), weir.ErrInvalidOptions, "%s", name)
	}
}
