//go:build !oldest

package clientgo

// These tests need functions that the oldest client-go lacks.

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// shutDownHandler removes a handler and waits until it has ended.
var shutDownHandler = cache.ShutDownEventHandler

// TestAdoptsTyped checks that the informer in client-go's typed wrapper, which adds no behaviour,
// is adopted.
func TestAdoptsTyped(t *testing.T) {
	typed := Adopt(cache.NewTypedSharedIndexInformer[*corev1.ConfigMap](cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, nil)))
	if _, ok := typed.(*informer); !ok {
		t.Errorf("client-go's typed informer became %T", typed)
	}
}

// TestTypedInformer checks that a factory's typed informer wraps its untyped one.
func TestTypedInformer(t *testing.T) {
	pods := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0).Core().V1().Pods()
	if err := pods.TypedInformer().AddTypedIndexers(coreinformers.PodIndexers{"probe": func(*corev1.Pod) ([]string, error) { return nil, nil }}); err != nil {
		t.Fatal(err)
	}
	if _, ok := pods.Informer().GetIndexer().GetIndexers()["probe"]; !ok {
		t.Error("an index of the typed informer is missing in the other")
	}
}

// TestLaterGroups checks that client-go's factory serves a group that it added after v0.36, and
// that it starts, waits and ends with Weir's.
func TestLaterGroups(t *testing.T) {
	f := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0, WithCustomResyncConfig(map[metav1.Object]time.Duration{
		&lifecyclev1alpha1.Eviction{}: time.Hour, &corev1.Pod{}: 2 * time.Hour,
	}))
	ctx, cancel := context.WithCancel(t.Context())
	inf := f.Lifecycle().V1alpha1().Evictions().Informer()
	pods := f.Core().V1().Pods().Informer()
	theirs, _ := fieldsOf(inf)
	if i, err := informerOf(pods); err != nil || theirs.resync != time.Hour || i.defaultResync != 2*time.Hour {
		t.Errorf("%v, resync periods %s and %s", err, theirs.resync, i.defaultResync)
	}
	f.StartWithContext(ctx)
	synced := f.WaitForCacheSyncWithContext(ctx)
	if synced.Err != nil || len(synced.Synced) != 2 || !inf.HasSynced() || !pods.HasSynced() {
		t.Errorf("%+v; synced: %v, %v", synced, inf.HasSynced(), pods.HasSynced())
	}
	cancel()
	f.Shutdown()
	if !inf.IsStopped() || !pods.IsStopped() {
		t.Error("an informer goes on after Shutdown")
	}
}

// TestIssueTypedTombstone checks that a typed handler receives a tombstone as a tombstone (calico
// 12793 and 13663, meshsync 566: lost deletions, or panics, on tombstones).
func TestIssueTypedTombstone(t *testing.T) {
	s := newRecordedInformer(t, NewSharedIndexInformer)
	deleted := make(chan coreinformers.DeletedPod, 1)
	typed := coreinformers.ToPodIndexInformer(s.informer)
	if _, err := typed.AddTypedEventHandler(coreinformers.PodHandlerFuncs{
		DeleteFunc: func(d coreinformers.DeletedPod) { deleted <- d },
	}); err != nil {
		t.Fatal(err)
	}
	s.source.Add(pod("a", "1"))
	s.start(t)
	s.source.DeleteDropWatch(pod("a", "1"))
	s.source.ResetWatch()
	if d := <-deleted; d.FinalStateUnknown == nil || d.FinalStateUnknown.Key != "d/a" || d.OptionalObj.Name != "a" {
		t.Errorf("deleted %v", d)
	}
}
