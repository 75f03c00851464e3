package controllerruntime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/internal/testing/check"
)

// recorder is a handler that records its calls. Tests can wait for a call.
type recorder struct {
	t       *testing.T
	ctx     context.Context
	changed chan struct{} // has capacity 1

	mu      sync.Mutex
	entries []string
	seen    int // index of the first entry that waitFor has not passed
	objects map[string]client.Object
}

// follow adds a recorder to an informer as a handler, and waits until the handler has synced.
func (s *setup) follow(inf cache.Informer) *recorder {
	s.t.Helper()
	r := &recorder{t: s.t, ctx: s.ctx, changed: make(chan struct{}, 1), objects: map[string]client.Object{}}
	registration, err := inf.AddEventHandler(r)
	check.NoError(s.t, err)
	if !toolscache.WaitForCacheSync(s.ctx.Done(), registration.HasSynced) {
		s.t.Fatal("the handler did not sync")
	}
	return r
}

func (r *recorder) OnAdd(obj any, initial bool) { r.note(fmt.Sprintf("add initial=%v", initial), obj) }
func (r *recorder) OnUpdate(_, obj any)         { r.note("update", obj) }
func (r *recorder) OnDelete(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	r.note("delete", obj)
}

func (r *recorder) note(what string, obj any) {
	o, ok := obj.(client.Object)
	if !ok {
		r.t.Errorf("%s of %T", what, obj)
		return
	}
	r.mu.Lock()
	entry := what + " " + client.ObjectKeyFromObject(o).String()
	r.entries = append(r.entries, entry)
	r.objects[entry] = o
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// waitFor waits until the call that entry describes is recorded, and returns the object of the
// call. It ignores all calls up to the call for which the previous waitFor waited.
func (r *recorder) waitFor(entry string) client.Object {
	r.t.Helper()
	for {
		r.mu.Lock()
		for i := r.seen; i < len(r.entries); i++ {
			if r.entries[i] == entry {
				r.seen = i + 1
				o := r.objects[entry]
				r.mu.Unlock()
				return o
			}
		}
		entries := fmt.Sprint(r.entries)
		r.mu.Unlock()
		select {
		case <-r.changed:
		case <-r.ctx.Done():
			r.t.Fatalf("never told %q, but %s", entry, entries)
		}
	}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

func pod(namespace, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func node(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// names returns the keys of a list, in the list's order.
func names[T client.Object](items []T) []string {
	out := make([]string, 0, len(items))
	for _, o := range items {
		out = append(out, client.ObjectKeyFromObject(o).String())
	}
	return out
}
