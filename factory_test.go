package weir_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestNoConfig checks that NewInformer and Acquire reject a nil rest.Config.
func TestNoConfig(t *testing.T) {
	if _, err := weir.NewInformer[*corev1.Pod](nil, weir.Options{}); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("NewInformer: %v", err)
	}
	if _, err := weir.Acquire[*corev1.Pod](weir.NewFactory(t.Context(), nil), weir.Options{}); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("Use: %v", err)
	}
}

// TestWaitForErrOfStopped checks that WaitForErr of an informer or a shared informer returns when
// the informer stops without an error.
func TestWaitForErrOfStopped(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	lease := acquire[*corev1.ConfigMap](t, f, weir.Options{})
	inf, stop := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{})
	for name, c := range map[string]struct {
		of interface {
			WaitForSync(context.Context) error
			WaitForErr(context.Context) error
		}
		stop func()
	}{
		"informer": {inf, stop},
		"lease":    {lease, func() { lease.Release(); <-lease.Done() }},
	} {
		check.NoError(t, c.of.WaitForSync(ctx))
		waited := make(chan error, 1)
		go func() { waited <- c.of.WaitForErr(ctx) }()
		c.stop()
		check.ErrorIs(t, <-waited, weir.ErrStopped, "%s", name)
		check.ErrorIs(t, c.of.WaitForErr(ctx), weir.ErrStopped, "%s, once it has stopped", name)
	}
	check.NoError(t, f.Shutdown())
}

// TestFactoryTypesOfOneName checks that types of the same name, such as Event in core and in
// events, have separate informers.
func TestFactoryTypesOfOneName(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	of := acquire[*corev1.Event](t, f, weir.Options{})
	other := acquire[*eventsv1.Event](t, f, weir.Options{})
	if of.Name() == other.Name() {
		t.Errorf("both are of %s", of.Name())
	}
	check.NoError(t, f.Shutdown())
}

func byName(m *corev1.ConfigMap) ([]string, error) { return []string{m.Name}, nil }

// TestIndexOfAnotherType checks that AddIndex rejects an index function whose argument has another
// type than the informer's objects. Otherwise reading the index would panic.
func TestIndexOfAnotherType(t *testing.T) {
	inf, err := weir.NewInformer[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:1"}, weir.Options{})
	check.NoError(t, err)
	check.ErrorIs(t, inf.AddIndex("name", weir.ByFunc(byName)), weir.ErrInvalidOptions, "an index of config maps on pods")
}

// TestSharedInformerAfterRelease checks that a released SharedInformer rejects handlers. Otherwise
// such a handler would stay registered while the informer has another user, because no later
// Release removes it. If the informer has stopped, the handler would never be called.
func TestSharedInformerAfterRelease(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	handle := func(l *weir.SharedInformer[*corev1.ConfigMap]) error {
		_, err := l.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {}, weir.HandlerOptions[*corev1.ConfigMap]{})
		return err
	}
	one := acquire[*corev1.ConfigMap](t, f, weir.Options{})
	two := acquire[*corev1.ConfigMap](t, f, weir.Options{})
	one.Release()
	check.ErrorIs(t, handle(one), weir.ErrReleased, "with another user")
	check.ErrorIs(t, one.AddIndex("app", weir.ByLabel("app")), weir.ErrReleased, "an index")
	if err := handle(two); err != nil {
		t.Errorf("the other user: %v", err)
	}
	two.Release()
	check.ErrorIs(t, handle(two), weir.ErrReleased, "after the last user")
	check.NoError(t, f.Shutdown())
}

// TestShutdownDuringAcquire calls Shutdown during Acquire. No informer may run afterwards: either
// Shutdown stops the informer, or Acquire returns ErrStopped.
func TestShutdownDuringAcquire(t *testing.T) {
	for range 200 {
		f := weir.NewFactory(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"})
		used := make(chan *weir.SharedInformer[*corev1.ConfigMap])
		go func() {
			lease, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{})
			if err != nil && !errors.Is(err, weir.ErrStopped) {
				t.Error(err)
			}
			used <- lease
		}()
		check.NoError(t, f.Shutdown())
		if lease := <-used; lease != nil {
			select {
			case <-lease.Done():
			default:
				t.Fatal("an informer goes on after Shutdown")
			}
		}
	}
}

// TestShutdownWithStuckHandler checks that Shutdown returns an error that wraps ErrHandlerStuck if
// a handler does not return.
func TestShutdownWithStuckHandler(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	f := weir.NewFactory(ctx, server.Config())
	lease := acquire[*corev1.ConfigMap](t, f, weir.Options{StopTimeout: time.Millisecond})
	called, free := make(chan struct{}), make(chan struct{})
	reg := handle(t, lease, func(context.Context, weir.Event[*corev1.ConfigMap]) {
		close(called)
		<-free
	})
	<-called
	check.ErrorIs(t, f.Shutdown(), weir.ErrHandlerStuck, "Shutdown")
	close(free)
	<-reg.Done()
}

// TestRemovedHandlerWaitsForNothing checks that WaitForSync returns immediately for a handler that
// was removed before it synced.
func TestRemovedHandlerWaitsForNothing(t *testing.T) {
	f := weir.NewFactory(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"})
	lease := acquire[*corev1.ConfigMap](t, f, weir.Options{})
	reg := handle(t, lease, func(context.Context, weir.Event[*corev1.ConfigMap]) {})
	reg.Remove()
	if err := reg.WaitForSync(t.Context()); !errors.Is(err, weir.ErrStopped) || !errors.Is(err, weir.ErrNotSynced) {
		t.Errorf("a removed handler: %v", err)
	}
	check.NoError(t, f.Shutdown())
}
