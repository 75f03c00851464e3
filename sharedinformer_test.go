package weir

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// unreachable is the config of a server that does not exist.
func unreachable() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

// TestSharedInformerForgetsHandlers: a shared informer keeps at most twice the handlers that it had
// at one time.
func TestSharedInformerForgetsHandlers(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l, err := Acquire[*corev1.Pod](f, Options{})
	check.NoError(t, err)
	for range 100 {
		r, err := l.Handle(func(context.Context, Event[*corev1.Pod]) {}, HandlerOptions[*corev1.Pod]{})
		check.NoError(t, err)
		r.Remove()
		<-r.Done()
	}
	if n := len(l.handlers); n > 4 {
		t.Errorf("%d handlers are kept", n)
	}
}

// TestAcquireWhileIndexIsBuilt: while an index is built, only users of the same informer wait.
func TestAcquireWhileIndexIsBuilt(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l, err := Acquire[*corev1.Pod](f, Options{})
	check.NoError(t, err)
	l.shared.indexing.Lock() // like an Acquire that adds an index
	other, err := Acquire[*corev1.Node](f, Options{})
	check.NoError(t, err)
	other.Release()
	second := make(chan error)
	go func() {
		_, err := Acquire[*corev1.Pod](f, Options{Indexes: map[string]Index{"node": ByField("spec.nodeName")}})
		second <- err
	}()
	l.shared.indexing.Unlock()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if _, ok := l.shared.indexes["node"]; !ok {
		t.Error("the index was not added")
	}
}
