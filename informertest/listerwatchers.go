package informertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var listerWatchers = []Story{
	{Name: "DependentList", Contract: "a List that reads the namespaces first, and then the pods of each, receives all of its responses, and the informer stores what the List returns",
		play: dependentList},
	{Name: "BlockedList", Contract: "an informer waits for a List that accepts no context and does not return, but stops within ten seconds",
		play: blockedList},
}

// NewListerWatcher creates an informer's ListerWatcher from a config for clients. example has the
// type of the informer's objects: *corev1.Pod, *unstructured.Unstructured or
// *metav1.PartialObjectMetadata.
type NewListerWatcher func(cfg *rest.Config, example runtime.Object) (cache.ListerWatcher, error)

// requests has the list and watch functions of a client of one object type.
type requests struct {
	list  func(ctx context.Context, resource, namespace string, o metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) // watches all pods
}

// requestsOf returns the list and watch functions of the client whose objects have the example's
// type.
func requestsOf(cfg *rest.Config, example runtime.Object) (r requests, err error) {
	resource := corev1.SchemeGroupVersion.WithResource
	switch example.(type) {
	case *corev1.Pod:
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return r, err
		}
		r.watch = client.CoreV1().Pods(metav1.NamespaceAll).Watch
		r.list = func(ctx context.Context, name, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			if name == "namespaces" {
				return client.CoreV1().Namespaces().List(ctx, o)
			}
			return client.CoreV1().Pods(namespace).List(ctx, o)
		}
	case *unstructured.Unstructured:
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			return r, err
		}
		r.watch = client.Resource(resource("pods")).Watch
		r.list = func(ctx context.Context, name, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource(name)).Namespace(namespace).List(ctx, o)
		}
	case *metav1.PartialObjectMetadata:
		client, err := metadata.NewForConfig(cfg)
		if err != nil {
			return r, err
		}
		r.watch = client.Resource(resource("pods")).Watch
		r.list = func(ctx context.Context, name, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource(name)).Namespace(namespace).List(ctx, o)
		}
	default:
		return r, fmt.Errorf("informertest: there is no client of %T", example)
	}
	return r, nil
}

// dependentList lists the namespaces, and then the pods of each namespace. It returns the pods as
// one list with the resourceVersion of the list of namespaces.
func (r requests) dependentList(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	namespaces, err := r.list(ctx, "namespaces", metav1.NamespaceAll, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var joined runtime.Object
	var pods []runtime.Object
	err = meta.EachListItem(namespaces, func(namespace runtime.Object) (err error) {
		if joined, err = r.list(ctx, "pods", namespace.(metav1.Object).GetName(), o); err != nil {
			return err
		}
		of, err := meta.ExtractList(joined)
		pods = append(pods, of...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := meta.SetList(joined, pods); err != nil {
		return nil, err
	}
	list := joined.(metav1.ListInterface)
	list.SetResourceVersion(namespaces.(metav1.ListInterface).GetResourceVersion())
	list.SetContinue("")
	return joined, nil
}

// dependentLists creates ListerWatchers whose List calls requests.dependentList. lists counts their
// successful Lists.
func dependentLists(lists *atomic.Int32) NewListerWatcher {
	return func(cfg *rest.Config, example runtime.Object) (cache.ListerWatcher, error) {
		to, err := requestsOf(cfg, example)
		if err != nil {
			return nil, err
		}
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			pods, err := to.dependentList(ctx, o)
			if err == nil {
				lists.Add(1)
			}
			return pods, err
		}
		return onlyLists{&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: to.watch}}, nil
	}
}

// onlyLists makes client-go call List instead of requesting initial events, because a List of
// several requests cannot be replaced by initial events.
type onlyLists struct{ *cache.ListWatch }

func (onlyLists) IsWatchListSemanticsUnSupported() bool { return true }

// dependentList uses a List that sends several requests. It starts with pods in one namespace, and
// in a second round with pods in several namespaces. It then changes a pod, creates another pod in
// a new namespace, and makes the informer list again. The informer must store the objects of each
// List.
func dependentList(s *storyRun) {
	for n := range 2 {
		var lists atomic.Int32
		s.server.Put(pod(nth(2)))
		for i := range 3 {
			if s.server.Put(pod(nth(i))); n > 0 {
				s.server.Put(pod(fmt.Sprintf("ns%d/pod", i)))
			}
		}
		inf, l := s.synced(Options{ListerWatcher: dependentLists(&lists)})
		inf.current(time.Second)
		if lists.Load() == 0 {
			s.failf("it has synced without the List")
		}
		s.server.Put(pod(nth(2), onNode("other")))
		s.server.Put(pod(fmt.Sprintf("another%d/pod", n)))
		inf.current(time.Second)
		l.takeEvents()
		before := lists.Load()
		s.server.SetDown(true) // so that no watch resumes before the compaction
		s.missed()
		s.server.SetDown(false)
		inf.current(2 * time.Minute)
		if lists.Load() == before {
			s.failf("it has received missed changes without the List")
		}
		l.getsMissed(time.Minute)
		inf.stop()
		s.server.Delete("ns/new")
	}
}

// contextless is a ListerWatcher whose methods have no context, like the ListerWatchers of old
// programs.
type contextless struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (c contextless) List(o metav1.ListOptions) (runtime.Object, error)   { return c.list(o) }
func (c contextless) Watch(o metav1.ListOptions) (watch.Interface, error) { return c.watch(o) }

func (contextless) IsWatchListSemanticsUnSupported() bool { return true }

var errReleased = errors.New("the List was blocked")

// blockedLists creates ListerWatchers without contexts. While gate has a channel, each List blocks
// until that channel is closed, and then returns an error.
func blockedLists(gate *atomic.Pointer[chan struct{}]) NewListerWatcher {
	return func(cfg *rest.Config, example runtime.Object) (cache.ListerWatcher, error) {
		to, err := requestsOf(cfg, example)
		if err != nil {
			return nil, err
		}
		return contextless{
			list: func(o metav1.ListOptions) (runtime.Object, error) {
				if blocks := gate.Load(); blocks != nil {
					<-*blocks
					return nil, errReleased
				}
				return to.list(context.Background(), "pods", metav1.NamespaceAll, o)
			},
			watch: func(o metav1.ListOptions) (watch.Interface, error) { return to.watch(context.Background(), o) },
		}, nil
	}
}

// blockedList stops an informer while its first List blocks. It then runs a second informer, whose
// first List fails and whose next List succeeds, and stops it while a later List blocks. Each
// informer must stop within ten seconds.
func blockedList(s *storyRun) {
	s.fill(3)
	for _, later := range []bool{false, true} {
		var gate atomic.Pointer[chan struct{}]
		inf := s.informer(Options{ListerWatcher: blockedLists(&gate)})
		l := inf.listen(HandlerOptions{})
		block := func() (release func()) {
			blocks := make(chan struct{})
			gate.Store(&blocks)
			return func() {
				gate.Store(nil)
				close(blocks)
			}
		}
		release := block()
		inf.run()
		s.elapse(3 * time.Minute)
		l.notSynced("synced without the List")
		if later {
			release()
			s.eventually(time.Minute, "HasSynced once the List returns", func() bool { return inf.HasSynced() && l.HasSynced() })
			inf.current(time.Second)
			release = block()
			s.server.BreakWatches()
			s.server.Put(pod(nth(0), onNode("missed")))
			s.server.Compact()
			s.elapse(3 * time.Minute)
			if n := len(inf.ResourceVersions()); n != 3 {
				s.errorf("%d pods of 3 are stored while the List is blocked", n)
			}
		}
		inf.cancel()
		if !inf.stopped(10 * time.Second) {
			s.errorf("not stopped within ten seconds")
		}
		release()
	}
}
