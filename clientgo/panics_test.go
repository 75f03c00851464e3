package clientgo

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
)

// survive has panics of the program's functions logged, and no more, as programs can have client-go
// do.
func survive(t *testing.T) {
	utilruntime.ReallyCrash = false
	t.Cleanup(func() { utilruntime.ReallyCrash = true })
}

// TestPanickingTransform checks that an object at which a transform panics is left out, if crashing
// is turned off.
func TestPanickingTransform(t *testing.T) {
	survive(t)
	s := newRecordedInformer(t, NewSharedIndexInformer)
	if err := s.informer.SetTransform(func(obj any) (any, error) {
		if obj.(*corev1.Pod).Name == "a" {
			panic("a is too much")
		}
		return obj, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.source.Add(pod("a", "1"))
	s.start(t)
	s.source.Add(pod("b", "1"))
	s.calls.wait(t, "add d/b@2 v=1")
	if keys := s.informer.GetStore().ListKeys(); len(keys) != 1 {
		t.Errorf("holds %q", keys)
	}
	s.stop()
}

// TestPanickingList checks that a List that panics is tried again, and that a watch error handler
// that panics stops nothing, if crashing is turned off.
func TestPanickingList(t *testing.T) {
	survive(t)
	var lists, errors atomic.Int32
	server := serve(t, apiserver.Options{Pods: 3})
	inner := podsOf(capturing(server.Config()))
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if lists.Add(1) == 1 {
				panic("not yet")
			}
			return inner.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: inner.WatchWithContext,
	}
	inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) {
		errors.Add(1)
		panic("no error is expected")
	}); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	if errors.Load() == 0 {
		t.Error("the handler of errors was not told")
	}
	stop()
}
