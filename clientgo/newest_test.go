//go:build !oldest

package clientgo

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// This file is left out of builds with the oldest supported client-go, which lacks the functions
// that these tests call.

// shutDownHandler removes a handler and waits until its last call has returned.
var shutDownHandler = cache.ShutDownEventHandler

const keepsTransforms = true

const noResync = time.Duration(0)

const skipped = ""

// callsEveryMethod is true if the tables of calls must contain each method of client-go.
const callsEveryMethod = true

// newerTypedCalls calls the methods of factories that the oldest client-go lacks.
var newerTypedCalls = []factoryCall[informers.SharedInformerFactory]{
	{name: "StartWithContext", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		inf := f.Core().V1().ConfigMaps().Informer()
		f.StartWithContext(newEnding(t))
		return held(t, inf)
	}},
	{name: "WaitForCacheSyncWithContext", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		e := newEnding(t)
		none := f.WaitForCacheSyncWithContext(e)
		f.Core().V1().ConfigMaps().Informer()
		f.StartWithContext(e)
		all := f.WaitForCacheSyncWithContext(e)
		return outcome(syncedTypes(none.Synced), none.Err, syncedTypes(all.Synced), all.Err, all.AsError())
	}},
	{name: "WaitForCacheSyncWithContext in vain", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		e := newEnding(t)
		f.InformerFor(&corev1.Secret{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			never := apierrors.NewServiceUnavailable("never")
			return cache.NewSharedIndexInformer(plainListerWatcher{
				func(metav1.ListOptions) (runtime.Object, error) { return nil, never },
				func(metav1.ListOptions) (watch.Interface, error) { return nil, never },
			}, &corev1.Secret{}, 0, nil)
		})
		f.StartWithContext(e)
		within, cancel := context.WithCancelCause(e)
		cancel(context.DeadlineExceeded)
		result := f.WaitForCacheSyncWithContext(within)
		return outcome(syncedTypes(result.Synced), result.Err, result.AsError())
	}},
	{name: "InformerName", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		return outcome(f.InformerName() == nil)
	}},
}

// TestInformerNameIsReleased checks that a factory releases its name in Shutdown.
func TestInformerNameIsReleased(t *testing.T) {
	name, err := cache.NewInformerName("clientgo-test")
	check.NoError(t, err)
	newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"}, WithInformerName(name)).Shutdown()
	_, err = cache.NewInformerName("clientgo-test")
	check.NoError(t, err)
}

// newerIndexerMethods calls the methods of indexers that the oldest client-go lacks.
var newerIndexerMethods = []method{
	{name: "Bookmark", call: onStore(func(x cache.Indexer) []any { x.Bookmark("50"); return nil })},
	{name: "LastStoreSyncResourceVersion", call: onStore(func(x cache.Indexer) []any { return []any{x.LastStoreSyncResourceVersion()} })},
}

// TestTypedInformer checks that a factory's typed informer and untyped informer of a resource share
// their indexers: they are one informer.
func TestTypedInformer(t *testing.T) {
	pods := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0).Core().V1().Pods()
	check.NoError(t, pods.TypedInformer().AddTypedIndexers(coreinformers.PodIndexers{"probe": func(*corev1.Pod) ([]string, error) { return nil, nil }}))
	if _, ok := pods.Informer().GetIndexer().GetIndexers()["probe"]; !ok {
		t.Error("an index of the typed informer is missing in the other")
	}
}

// TestIssueTypedTombstone checks that a typed handler receives a tombstone for a missed deletion.
// In calico issues 12793 and 13663, and in meshsync issue 566, tombstones caused lost deletions or
// panics.
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
