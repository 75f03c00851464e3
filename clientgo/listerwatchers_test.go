package clientgo

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"
)

// watches receives a value for each watch that a fake ListerWatcher opens, so that a test can wait
// until a watch is open. Some fake ListerWatchers lose changes that are made before a watch is
// open; with others, such a change makes the informer list again.
type watches chan struct{}

func newWatches() watches { return make(watches, 100) }

func (w watches) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w:
	case <-time.After(waitTimeout):
		t.Fatal("no watch was opened")
	}
}

// fakeSource is a FakeControllerSource that sends a value to its channel watches when a watch is
// opened.
type fakeSource struct {
	*cachetest.FakeControllerSource
	watches watches
}

func newFakeSource(t *testing.T) fakeSource {
	f := fakeSource{cachetest.NewFakeControllerSource(), newWatches()}
	t.Cleanup(f.Shutdown)
	return f
}

func (f fakeSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.FakeControllerSource.Watch(o)
	if err == nil {
		f.watches <- struct{}{}
	}
	return w, err
}

// plainListerWatcher is a ListerWatcher without contexts, as in old programs.
type plainListerWatcher struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (p plainListerWatcher) List(o metav1.ListOptions) (runtime.Object, error)   { return p.list(o) }
func (p plainListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) { return p.watch(o) }

// IsWatchListSemanticsUnSupported returns true, so that client-go sends a LIST instead of a WATCH
// with initial events.
func (plainListerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// podSource returns a ListerWatcher whose List returns pods at a version, and whose Watch returns
// the argument events at each call.
func podSource(version string, events watch.Interface, pods ...*corev1.Pod) plainListerWatcher {
	return plainListerWatcher{
		list: func(metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
			for _, p := range pods {
				list.Items = append(list.Items, *p)
			}
			return list, nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}
}

// listsOnce returns a ListerWatcher whose List returns list at each call, and whose watches have no
// events.
func listsOnce(list runtime.Object) plainListerWatcher {
	return plainListerWatcher{
		list:  func(metav1.ListOptions) (runtime.Object, error) { return list, nil },
		watch: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
}

// noWatchList is a ListWatch for which client-go sends a LIST instead of a WATCH with initial
// events.
type noWatchList struct{ *cache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// client is the client of a resource in a clientset.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// listWatchOf returns a ListerWatcher like the one that informer-gen generates for a client.
func listWatchOf[L runtime.Object](c client[L]) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		WatchFuncWithContext: c.Watch,
	}
}

// podsOf builds a ListerWatcher of pods with client-go's NewListWatchFromClient.
func podsOf(cfg *rest.Config) *cache.ListWatch {
	client := kubernetes.NewForConfigOrDie(cfg)
	return cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.Everything())
}
