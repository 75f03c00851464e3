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

// TestNoConfig: no informer is created without a rest.Config.
func TestNoConfig(t *testing.T) {
	if _, err := weir.NewInformer[*corev1.Pod](nil, weir.Options{}); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("NewInformer: %v", err)
	}
	if _, err := weir.Acquire[*corev1.Pod](weir.NewFactory(t.Context(), nil), weir.Options{}); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("Use: %v", err)
	}
}

// TestWaitForErrOfStopped: WaitForErr of an informer or a shared informer returns when the informer
// ends, even if it had no error.
func TestWaitForErrOfStopped(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	lease, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{})
	check.NoError(t, err)
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
		if err := <-waited; !errors.Is(err, weir.ErrStopped) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.of.WaitForErr(ctx); !errors.Is(err, weir.ErrStopped) {
			t.Errorf("%s, once it has stopped: %v", name, err)
		}
	}
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
}

// Types of the same name, such as Event in core and in events, have separate informers.
func TestFactoryTypesOfOneName(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	of, err := weir.Acquire[*corev1.Event](f, weir.Options{})
	check.NoError(t, err)
	other, err := weir.Acquire[*eventsv1.Event](f, weir.Options{})
	check.NoError(t, err)
	if of.Name() == other.Name() {
		t.Errorf("both are of %s", of.Name())
	}
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
}

func byName(m *corev1.ConfigMap) ([]string, error) { return []string{m.Name}, nil }

// An index by a function of another type is an error, not a panic when it is read.
func TestIndexOfAnotherType(t *testing.T) {
	inf, err := weir.NewInformer[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:1"}, weir.Options{})
	check.NoError(t, err)
	if err := inf.AddIndex("name", weir.ByFunc(byName)); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("an index of config maps on pods: %v", err)
	}
}

// a released SharedInformer rejects handlers: no informer would serve them after the last user, and
// no Release would remove them.
func TestSharedInformerAfterRelease(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{})
	f := weir.NewFactory(ctx, server.Config())
	handle := func(l *weir.SharedInformer[*corev1.ConfigMap]) error {
		_, err := l.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {}, weir.HandlerOptions[*corev1.ConfigMap]{})
		return err
	}
	one, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{})
	check.NoError(t, err)
	two, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{})
	check.NoError(t, err)
	one.Release()
	if err := handle(one); !errors.Is(err, weir.ErrReleased) {
		t.Errorf("with another user: %v", err)
	}
	if err := one.AddIndex("app", weir.ByLabel("app")); !errors.Is(err, weir.ErrReleased) {
		t.Errorf("an index: %v", err)
	}
	if err := handle(two); err != nil {
		t.Errorf("the other user: %v", err)
	}
	two.Release()
	if err := handle(two); !errors.Is(err, weir.ErrReleased) {
		t.Errorf("after the last user: %v", err)
	}
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
}

// TestShutdownDuringAcquire: Shutdown ends the informer of a concurrent Acquire, or that Acquire
// starts none.
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
		if err := f.Shutdown(); err != nil {
			t.Error(err)
		}
		if lease := <-used; lease != nil {
			select {
			case <-lease.Done():
			default:
				t.Fatal("an informer goes on after Shutdown")
			}
		}
	}
}

// TestShutdownWithStuckHandler: Shutdown returns an error about a handler that does not return.
func TestShutdownWithStuckHandler(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	f := weir.NewFactory(ctx, server.Config())
	lease, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{StopTimeout: time.Millisecond})
	check.NoError(t, err)
	called, free := make(chan struct{}), make(chan struct{})
	reg, err := lease.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {
		close(called)
		<-free
	}, weir.HandlerOptions[*corev1.ConfigMap]{})
	check.NoError(t, err)
	<-called
	if err := f.Shutdown(); !errors.Is(err, weir.ErrHandlerStuck) {
		t.Errorf("Shutdown: %v", err)
	}
	close(free)
	<-reg.Done()
}

// TestRemovedHandlerWaitsForNothing: no caller waits for the sync of a handler that was removed
// before it synced.
func TestRemovedHandlerWaitsForNothing(t *testing.T) {
	f := weir.NewFactory(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"})
	lease, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{})
	check.NoError(t, err)
	reg, err := lease.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {}, weir.HandlerOptions[*corev1.ConfigMap]{})
	check.NoError(t, err)
	reg.Remove()
	if err := reg.WaitForSync(t.Context()); !errors.Is(err, weir.ErrStopped) || !errors.Is(err, weir.ErrNotSynced) {
		t.Errorf("a removed handler: %v", err)
	}
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
}
