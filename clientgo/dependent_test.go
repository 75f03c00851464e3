package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// dependentListerWatchers list the namespaces first, and then the config maps of each namespace.
var dependentListerWatchers = map[string]struct {
	example runtime.Object
	build   func(cfg *rest.Config) *cache.ListWatch
}{
	"typed": {&corev1.ConfigMap{}, func(cfg *rest.Config) *cache.ListWatch {
		client := kubernetes.NewForConfigOrDie(cfg).CoreV1()
		return dependent(client.Namespaces(), func(namespace string) *cache.ListWatch { return listWatchOf(client.ConfigMaps(namespace)) })
	}},
	"unstructured":                     {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}, untypedDependent},
	"unstructured, of an unknown kind": {&unstructured.Unstructured{}, untypedDependent},
	"metadata":                         {&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}, metadataDependent},
	"metadata, of an unknown kind":     {&metav1.PartialObjectMetadata{}, metadataDependent},
}

func untypedDependent(cfg *rest.Config) *cache.ListWatch {
	client := dynamic.NewForConfigOrDie(cfg)
	return dependent(client.Resource(namespaces), func(namespace string) *cache.ListWatch {
		return listWatchOf(client.Resource(configMaps).Namespace(namespace))
	})
}

func metadataDependent(cfg *rest.Config) *cache.ListWatch {
	client := metadata.NewForConfigOrDie(cfg)
	return dependent(client.Resource(namespaces), func(namespace string) *cache.ListWatch {
		return listWatchOf(client.Resource(configMaps).Namespace(namespace))
	})
}

// dependent returns a ListerWatcher that lists the namespaces, and then the objects in each
// namespace. Its Watch watches the objects in all namespaces.
func dependent[L runtime.Object](namespaces client[L], in func(namespace string) *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all, err := namespaces.List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			list, err := meta.ListAccessor(all)
			if err != nil {
				return nil, err
			}
			var items []runtime.Object
			err = meta.EachListItem(all, func(ns runtime.Object) error {
				of, err := in(name(ns)).ListWithContext(ctx, o)
				if err != nil {
					return err
				}
				more, err := meta.ExtractList(of)
				items = append(items, more...)
				return err
			})
			return listOf(list.GetResourceVersion(), items...), err
		},
		WatchFuncWithContext: in("").WatchWithContext,
	}
}

// TestDependentList uses a ListerWatcher whose List first sends a LIST of namespaces and reads the
// response. With client-go's informer and with Weir's, the ListerWatcher must receive this
// response. The informer must store the objects of all namespaces and receive later changes.
func TestDependentList(t *testing.T) {
	for name, tc := range dependentListerWatchers {
		for _, namespaces := range []int{1, 3} {
			for which, newInformer := range bothConstructors {
				t.Run(fmt.Sprintf("%s, %d namespaces, %s", name, namespaces, which), func(t *testing.T) {
					server := serve(t, apiserver.Options{})
					client := fill(t, server.Config())
					var want []any
					for i := range namespaces {
						ns := fmt.Sprint("ns", i)
						createNamespace(t, client, ns)
						want = append(want, create(t, client, configMap(ns, "m", nil)))
					}
					inf := newInformer(noWatchList{tc.build(capturing(server.Config()))}, tc.example, 0, nil)
					calls := observe(t, inf)
					runSynced(t, inf)
					check.Equal(t, shown(inf.GetStore().List()), shown(want), "holds")
					calls.wait(t, "add "+show(create(t, client, configMap("ns0", "new", nil))))
				})
			}
		}
	}
}

func createNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	check.NoError(t, err)
}

// TestListUntilThereIsSomething uses a List that repeats its request until the response is not
// empty. The List must receive the real response. If it received a stub, which is always empty, it
// would never return.
func TestListUntilThereIsSomething(t *testing.T) {
	for which, newInformer := range bothConstructors {
		t.Run(which, func(t *testing.T) {
			server := serve(t, apiserver.Options{Pods: 3})
			lw := podsOf(capturing(server.Config()))
			inf := newInformer(noWatchList{&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					for {
						if list, err := lw.ListWithContext(ctx, o); err != nil || meta.LenList(list) > 0 {
							return list, err
						}
					}
				},
				WatchFuncWithContext: lw.WatchWithContext,
			}}, &corev1.Pod{}, 0, nil)
			runSynced(t, inf)
			check.Equal(t, len(inf.GetStore().List()), 3, "objects")
		})
	}
}

// TestOwnPages uses a List that reads page after page. It checks that client-go's informer and
// Weir's store every object. If the List requests the first page with other options than it was
// called with, Weir's informer must stop capturing.
func TestOwnPages(t *testing.T) {
	for name, begin := range map[string]func(metav1.ListOptions) metav1.ListOptions{
		"the options given": func(o metav1.ListOptions) metav1.ListOptions { o.Limit = 2; return o },
		"its own":           func(metav1.ListOptions) metav1.ListOptions { return metav1.ListOptions{Limit: 2} },
	} {
		for which, newInformer := range bothConstructors {
			t.Run(name+", "+which, func(t *testing.T) {
				server := serve(t, apiserver.Options{})
				client := fill(t, server.Config())
				var want []any
				for i := range 5 {
					want = append(want, create(t, client, configMap("one", fmt.Sprint("m", i), nil)))
				}
				inf := newInformer(noWatchList{paging(capturing(server.Config()), begin)}, &corev1.ConfigMap{}, 0, nil)
				calls := newRecorder()
				handler := register(t, inf, calls)
				run(t, inf)
				synced(t, inf, handler)
				if got := shown(inf.GetStore().List()); got != shown(want) || len(calls.all()) != 5 {
					t.Errorf("holds\n%s\nwant\n%s\ntold %q", got, shown(want), calls.all())
				}
				calls.wait(t, "add "+show(create(t, client, configMap("one", "new", nil))))
				if ours, ok := inf.(*informer); ok && ours.listWatch.noCapture.Load() != (name == "its own") {
					t.Errorf("captured no more: %v", ours.listWatch.noCapture.Load())
				}
			})
		}
	}
}

// paging returns a ListerWatcher whose List reads config maps page after page. begin returns the
// options of the first page.
func paging(cfg *rest.Config, begin func(metav1.ListOptions) metav1.ListOptions) *cache.ListWatch {
	maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("")
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, given metav1.ListOptions) (runtime.Object, error) {
			all := &corev1.ConfigMapList{}
			for o := begin(given); ; o.Continue = all.Continue {
				page, err := maps.List(ctx, o)
				if err != nil {
					return nil, err
				}
				all.ListMeta, all.Items = page.ListMeta, append(all.Items, page.Items...)
				if page.Continue == "" {
					return all, nil
				}
			}
		},
		WatchFuncWithContext: maps.Watch,
	}
}

// TestExpiredPage checks that the informer still captures lists after a page has expired, when
// client-go's pager requests all objects in one LIST instead.
func TestExpiredPage(t *testing.T) {
	faults := &apiserver.Faults{}
	server := serve(t, apiserver.Options{Faults: faults})
	client := fill(t, server.Config())
	for i := range 5 {
		create(t, client, configMap("one", fmt.Sprint("m", i), nil))
	}
	lists := apiserver.Match("list", "configmaps")
	var expired atomic.Int64
	faults.Add(apiserver.Rule{
		Match: func(r *http.Request) bool {
			return lists(r) && r.URL.Query().Get("continue") != "" && expired.Add(1) == 1
		},
		Err: apierrors.NewResourceExpired("the page is gone"),
	})
	cfg := capturing(server.Config())
	pages := typedPager(cfg)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.Limit = 2
			return pages.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("").Watch,
	}
	inf := NewSharedIndexInformer(noWatchList{lw}, &corev1.ConfigMap{}, 0, nil).(*informer)
	runSynced(t, inf)
	check.Equal(t, len(inf.GetStore().List()), 5, "are held")
	if expired.Load() == 0 || inf.listWatch.noCapture.Load() {
		t.Errorf("pages that were asked for: %d; captured no more: %v", expired.Load(), inf.listWatch.noCapture.Load())
	}
}

// TestDependentWatch checks that a ListerWatcher's Watch may open another WATCH, and read its
// events, before it opens the WATCH that it returns.
func TestDependentWatch(t *testing.T) {
	server := serve(t, apiserver.Options{})
	plain := fill(t, server.Config(), configMap("one", "a", nil))
	client := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1()
	began := make(chan struct{}, 10)
	lw := listWatchOf(client.ConfigMaps("one"))
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		namespaces, err := client.Namespaces().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		// Wait until the namespace exists.
		defer namespaces.Stop()
		for event := range namespaces.ResultChan() {
			if name(event.Object) == "one" {
				began <- struct{}{}
				return client.ConfigMaps("one").Watch(ctx, o)
			}
		}
		return nil, errors.New("the watch of namespaces ended")
	}
	createNamespace(t, plain, "one")
	inf := NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil)
	calls := observe(t, inf)
	runSynced(t, inf)
	calls.wait(t, "add "+show(create(t, plain, configMap("one", "b", nil))))
	if len(began) == 0 {
		t.Error("the watch was not begun by its own means")
	}
}
