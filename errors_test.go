package weir_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestErrorTexts: calls return sentinels of this package. Their text names the object of the call
// and no package.
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

// TestHandlerWaitWrapsContextError: a wait for a handler that does not end returns the context's
// error and its cause.
func TestHandlerWaitWrapsContextError(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "x")
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{})
	release := make(chan struct{})
	reg, err := inf.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) { <-release }, weir.HandlerOptions[*corev1.ConfigMap]{})
	check.NoError(t, err)
	defer close(release)
	check.NoError(t, inf.WaitForSync(ctx))
	cause := errors.New("the rollout is over")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	if err := reg.WaitForSync(ended); !errors.Is(err, weir.ErrNotSynced) || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("the wait says %v", err)
	}
}
