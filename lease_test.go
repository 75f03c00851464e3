package weir

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// nobody is the config of a server that is not there.
func nobody() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

// TestLeaseForgetsHandlers: a lease keeps no more handlers than were there at a time, and as many
// again.
func TestLeaseForgetsHandlers(t *testing.T) {
	f := NewFactory(t.Context(), nobody())
	defer f.Shutdown()
	l, err := Use[*corev1.Pod](f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r, err := l.Handle(func(context.Context, Event[*corev1.Pod]) {}, HandlerOptions[*corev1.Pod]{})
		if err != nil {
			t.Fatal(err)
		}
		r.Remove()
		<-r.Done()
	}
	if n := len(l.handlers); n > 4 {
		t.Errorf("%d handlers are kept", n)
	}
}

// TestUseWhileIndexIsBuilt: a user whose index is being built holds up those of the same informer
// alone.
func TestUseWhileIndexIsBuilt(t *testing.T) {
	f := NewFactory(t.Context(), nobody())
	defer f.Shutdown()
	l, err := Use[*corev1.Pod](f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.shared.indexing.Lock() // as a Use does that adds an index
	other, err := Use[*corev1.Node](f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	other.Release()
	second := make(chan error)
	go func() {
		_, err := Use[*corev1.Pod](f, Options{Indexes: map[string]Index{"node": ByField("spec.nodeName")}})
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
