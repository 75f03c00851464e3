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
	{Name: "DependentList", Contract: "a List that reads the namespaces first, and then the pods of each, gets all of its answers, and what it returns is held",
		play: dependentList},
	{Name: "BlockedList", Contract: "an informer waits for a List that takes no context and does not return, and stops within ten seconds all the same",
		play: blockedList},
}

// NewListerWatcher creates an informer's ListerWatcher from the config of its clients. example has
// the type of the informer's objects: *corev1.Pod, *unstructured.Unstructured or
// *metav1.PartialObjectMetadata.
type NewListerWatcher func(cfg *rest.Config, example runtime.Object) (cache.ListerWatcher, error)

// requests are the methods of a client of one type of objects.
type requests struct {
	namespaces func(ctx context.Context) (names []string, rv string, err error)
	pods       func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error)
	watch      func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	// join returns the items of several lists as one list.
	join func(rv string, lists []runtime.Object) runtime.Object
}

// requestsOf returns the requests of the client for objects of the example's type.
func requestsOf(cfg *rest.Config, example runtime.Object) (requests, error) {
	switch example.(type) {
	case *corev1.Pod:
		return typedRequests(cfg)
	case *unstructured.Unstructured:
		return dynamicRequests(cfg)
	case *metav1.PartialObjectMetadata:
		return metadataRequests(cfg)
	}
	return requests{}, fmt.Errorf("informertest: there is no client of %T", example)
}

func typedRequests(cfg *rest.Config) (requests, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return requests{}, err
	}
	core := client.CoreV1()
	return requests{
		namespaces: func(ctx context.Context) ([]string, string, error) {
			return namesIn(core.Namespaces().List(ctx, metav1.ListOptions{}))
		},
		pods: func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return core.Pods(namespace).List(ctx, o)
		},
		watch: core.Pods(metav1.NamespaceAll).Watch,
		join: func(rv string, lists []runtime.Object) runtime.Object {
			all := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
			for _, l := range lists {
				all.Items = append(all.Items, l.(*corev1.PodList).Items...)
			}
			return all
		},
	}, nil
}

func dynamicRequests(cfg *rest.Config) (requests, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return requests{}, err
	}
	resource := func(name string) dynamic.NamespaceableResourceInterface {
		return client.Resource(corev1.SchemeGroupVersion.WithResource(name))
	}
	list := func(ctx context.Context, name, namespace string, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		return resource(name).Namespace(namespace).List(ctx, o)
	}
	return untypedRequests(list, resource("pods").Watch, func(rv string, lists []runtime.Object) runtime.Object {
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("v1")
		all.SetKind("PodList")
		all.SetResourceVersion(rv)
		for _, l := range lists {
			all.Items = append(all.Items, l.(*unstructured.UnstructuredList).Items...)
		}
		return all
	}), nil
}

func metadataRequests(cfg *rest.Config) (requests, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return requests{}, err
	}
	resource := func(name string) metadata.Getter {
		return client.Resource(corev1.SchemeGroupVersion.WithResource(name))
	}
	list := func(ctx context.Context, name, namespace string, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return resource(name).Namespace(namespace).List(ctx, o)
	}
	return untypedRequests(list, resource("pods").Watch, func(rv string, lists []runtime.Object) runtime.Object {
		all := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
		for _, l := range lists {
			all.Items = append(all.Items, l.(*metav1.PartialObjectMetadataList).Items...)
		}
		return all
	}), nil
}

// untypedRequests returns the requests of a client that has one type of lists for all resources.
func untypedRequests[L interface {
	runtime.Object
	metav1.ListInterface
}](
	list func(ctx context.Context, resource, namespace string, o metav1.ListOptions) (L, error),
	watchPods func(context.Context, metav1.ListOptions) (watch.Interface, error),
	join func(rv string, lists []runtime.Object) runtime.Object,
) requests {
	return requests{
		namespaces: func(ctx context.Context) ([]string, string, error) {
			return namesIn(list(ctx, "namespaces", metav1.NamespaceAll, metav1.ListOptions{}))
		},
		pods: func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, "pods", namespace, o)
		},
		watch: watchPods,
		join:  join,
	}
}

// namesIn returns the names of a list of namespaces, and its resourceVersion.
func namesIn[L interface {
	runtime.Object
	metav1.ListInterface
}](list L, err error) ([]string, string, error) {
	if err != nil {
		return nil, "", err
	}
	var names []string
	err = meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(metav1.Object).GetName())
		return nil
	})
	return names, list.GetResourceVersion(), err
}

// dependentLists creates ListerWatchers that list the namespaces, and then the pods of each. lists
// counts the successful ones.
func dependentLists(lists *atomic.Int32) NewListerWatcher {
	return func(cfg *rest.Config, example runtime.Object) (cache.ListerWatcher, error) {
		to, err := requestsOf(cfg, example)
		if err != nil {
			return nil, err
		}
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			names, rv, err := to.namespaces(ctx)
			if err != nil {
				return nil, err
			}
			var all []runtime.Object
			for _, namespace := range names {
				of, err := to.pods(ctx, namespace, o)
				if err != nil {
					return nil, err
				}
				all = append(all, of)
			}
			lists.Add(1)
			return to.join(rv, all), nil
		}
		return onlyLists{&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: to.watch}}, nil
	}
}

// onlyLists keeps client-go from requesting initial events, which no such List can provide.
type onlyLists struct{ *cache.ListWatch }

func (onlyLists) IsWatchListSemanticsUnSupported() bool { return true }

// dependentList starts with the pods of one namespace, or of three. More come, in another namespace
// too, and then the informer lists again.
func dependentList(s *storyRun) {
	for n := range 2 {
		var lists atomic.Int32
		s.server.Put(pod(nth(2)))
		for i := range 3 {
			if s.server.Put(pod(nth(i))); n > 0 {
				s.server.Put(pod(fmt.Sprintf("ns%d/pod", i)))
			}
		}
		inf := s.informer(Options{ListerWatcher: dependentLists(&lists)})
		l := inf.listen(HandlerOptions{})
		inf.synced()
		inf.current(time.Second)
		if lists.Load() == 0 {
			s.failf("it has synced without the List")
		}
		s.server.Put(pod(nth(2), onNode("other")))
		s.server.Put(pod(fmt.Sprintf("another%d/pod", n)))
		inf.current(time.Second)
		l.takeEvents()
		before := lists.Load()
		s.server.SetDown(true) // so that no watch restarts before the server has forgotten
		s.missed()
		s.server.SetDown(false)
		inf.current(2 * time.Minute)
		if lists.Load() == before {
			s.failf("it knows what it has missed without the List")
		}
		s.tellsMissed(l.takeEvents())
		inf.stop()
		s.server.Delete("ns/new")
	}
}

// contextless lists and watches like code without contexts.
type contextless struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (c contextless) List(o metav1.ListOptions) (runtime.Object, error)   { return c.list(o) }
func (c contextless) Watch(o metav1.ListOptions) (watch.Interface, error) { return c.watch(o) }

func (contextless) IsWatchListSemanticsUnSupported() bool { return true }

var errReleased = errors.New("the List was blocked")

// blockedLists creates ListerWatchers without contexts. After gate has received a channel, each
// List fails when that channel is closed.
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
				return to.pods(context.Background(), metav1.NamespaceAll, o)
			},
			watch: func(o metav1.ListOptions) (watch.Interface, error) { return to.watch(context.Background(), o) },
		}, nil
	}
}

// blockedList blocks the first List, which fails in the end so that another follows, and then a
// later one. It stops the informer during each.
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
		if inf.HasSynced() || l.HasSynced() {
			s.errorf("it has synced without the List")
		}
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
				s.errorf("%d pods of 3 are held while the List is blocked", n)
			}
		}
		inf.cancel()
		if !inf.stopped(10 * time.Second) {
			s.errorf("not stopped within ten seconds")
		}
		release()
	}
}
