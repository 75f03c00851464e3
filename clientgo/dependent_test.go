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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// dependentListerWatchers list namespaces first, to list the config maps of each.
var dependentListerWatchers = map[string]struct {
	example runtime.Object
	build   func(cfg *rest.Config) *cache.ListWatch
}{
	"typed": {&corev1.ConfigMap{}, func(cfg *rest.Config) *cache.ListWatch {
		client := kubernetes.NewForConfigOrDie(cfg).CoreV1()
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				namespaces, err := client.Namespaces().List(ctx, metav1.ListOptions{})
				if err != nil {
					return nil, err
				}
				all := &corev1.ConfigMapList{ListMeta: namespaces.ListMeta}
				for _, ns := range namespaces.Items {
					of, err := client.ConfigMaps(ns.Name).List(ctx, o)
					if err != nil {
						return nil, err
					}
					all.Items = append(all.Items, of.Items...)
				}
				return all, nil
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return client.ConfigMaps("").Watch(ctx, o)
			},
		}
	}},
	"unstructured":                     {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}, untypedDependent},
	"unstructured, of an unknown kind": {&unstructured.Unstructured{}, untypedDependent},
	"metadata":                         {&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}, metadataDependent},
	"metadata, of an unknown kind":     {&metav1.PartialObjectMetadata{}, metadataDependent},
}

func untypedDependent(cfg *rest.Config) *cache.ListWatch {
	client := dynamic.NewForConfigOrDie(cfg)
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			namespaces, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			all := namespaces.DeepCopy()
			all.Items = nil
			for _, ns := range namespaces.Items {
				of, err := maps.Namespace(ns.GetName()).List(ctx, o)
				if err != nil {
					return nil, err
				}
				all.Items = append(all.Items, of.Items...)
			}
			return all, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) },
	}
}

func metadataDependent(cfg *rest.Config) *cache.ListWatch {
	client := metadata.NewForConfigOrDie(cfg)
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			namespaces, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			all := namespaces.DeepCopy()
			all.Items = nil
			for _, ns := range namespaces.Items {
				of, err := maps.Namespace(ns.Name).List(ctx, o)
				if err != nil {
					return nil, err
				}
				all.Items = append(all.Items, of.Items...)
			}
			return all, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) },
	}
}

// TestDependentList checks that a ListerWatcher whose List needs the response to another LIST
// receives it, and that the informer stores its result, with one namespace and with several, in
// client-go's informer and Weir's. Changes follow.
func TestDependentList(t *testing.T) {
	for name, tc := range dependentListerWatchers {
		for _, namespaces := range []int{1, 3} {
			for which, newInformer := range bothConstructors {
				t.Run(fmt.Sprintf("%s, %d namespaces, %s", name, namespaces, which), func(t *testing.T) {
					server := serve(t, apiserver.Options{})
					client := fill(t, server.Config())
					want := ""
					for i := range namespaces {
						ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns", i)}}
						if _, err := client.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
							t.Fatal(err)
						}
						made, err := client.CoreV1().ConfigMaps(ns.Name).Create(context.Background(), configMap(ns.Name, "m", nil), metav1.CreateOptions{})
						check.NoError(t, err)
						want += show(made) + "\n"
					}
					inf := newInformer(noWatchList{tc.build(capturing(server.Config()))}, tc.example, 0, nil)
					calls := newRecorder()
					if _, err := inf.AddEventHandler(calls); err != nil {
						t.Fatal(err)
					}
					stop := run(t, inf)
					synced(t, inf.HasSyncedChecker())
					check.Equal(t, shown(inf.GetStore().List())+"\n", want, "holds")
					made, err := client.CoreV1().ConfigMaps("ns0").Create(context.Background(), configMap("ns0", "new", nil), metav1.CreateOptions{})
					check.NoError(t, err)
					calls.wait(t, "add "+show(made))
					stop()
				})
			}
		}
	}
}

// TestListUntilThereIsSomething checks that a ListerWatcher whose List repeats its request until
// the answer is not empty receives one that is not.
func TestListUntilThereIsSomething(t *testing.T) {
	for which, newInformer := range bothConstructors {
		t.Run(which, func(t *testing.T) {
			server := serve(t, apiserver.Options{Pods: 3})
			client := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1().Pods("")
			inf := newInformer(noWatchList{&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					for {
						if list, err := client.List(ctx, o); err != nil || len(list.Items) > 0 {
							return list, err
						}
					}
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
			}}, &corev1.Pod{}, 0, nil)
			stop := run(t, inf)
			synced(t, inf.HasSyncedChecker())
			check.Equal(t, len(inf.GetStore().List()), 3, "objects")
			stop()
		})
	}
}

// noWatchList keeps client-go from requesting initial events instead of a list.
type noWatchList struct{ *cache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// TestOwnPages checks that a List that reads page after page itself returns every object, whether
// it starts with the options that it received or with its own, in client-go's informer and Weir's.
// In the latter case it is no longer captured.
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
					made, err := client.CoreV1().ConfigMaps("one").Create(context.Background(), configMap("one", fmt.Sprint("m", i), nil), metav1.CreateOptions{})
					check.NoError(t, err)
					want = append(want, made)
				}
				inf := newInformer(noWatchList{paging(capturing(server.Config()), begin)}, &corev1.ConfigMap{}, 0, nil)
				calls := newRecorder()
				handler, err := inf.AddEventHandler(calls)
				check.NoError(t, err)
				stop := run(t, inf)
				synced(t, inf.HasSyncedChecker(), handler.HasSyncedChecker())
				if got := shown(inf.GetStore().List()); got != shown(want) || len(calls.all()) != 5 {
					t.Errorf("holds\n%s\nwant\n%s\ntold %q", got, shown(want), calls.all())
				}
				made, err := client.CoreV1().ConfigMaps("one").Create(context.Background(), configMap("one", "new", nil), metav1.CreateOptions{})
				check.NoError(t, err)
				calls.wait(t, "add "+show(made))
				if ours, ok := inf.(*informer); ok && ours.listWatch.noCapture.Load() != (name == "its own") {
					t.Errorf("captured no more: %v", ours.listWatch.noCapture.Load())
				}
				stop()
			})
		}
	}
}

// TestExpiredPage checks that lists are still captured after a page has expired: client-go's pager
// then requests everything.
func TestExpiredPage(t *testing.T) {
	faults := &apiserver.Faults{}
	server := serve(t, apiserver.Options{Faults: faults})
	client := fill(t, server.Config())
	for i := range 5 {
		if _, err := client.CoreV1().ConfigMaps("one").Create(context.Background(), configMap("one", fmt.Sprint("m", i), nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lists := apiserver.Match("list", "configmaps")
	var expired atomic.Int64
	faults.Add(apiserver.Rule{
		Match: func(r *http.Request) bool {
			return lists(r) && r.URL.Query().Get("continue") != "" && expired.Add(1) == 1
		},
		Err: apierrors.NewResourceExpired("the page is gone"),
	})
	maps := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1().ConfigMaps("")
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) })
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.Limit = 2
			list, _, err := pages.List(ctx, o)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) },
	}
	inf := NewSharedIndexInformer(noWatchList{lw}, &corev1.ConfigMap{}, 0, nil).(*informer)
	stop := run(t, inf)
	defer stop()
	synced(t, inf.HasSyncedChecker())
	check.Equal(t, len(inf.GetStore().List()), 5, "are held")
	if expired.Load() == 0 || inf.listWatch.noCapture.Load() {
		t.Errorf("pages that were asked for: %d; captured no more: %v", expired.Load(), inf.listWatch.noCapture.Load())
	}
}

// paging lists config maps page by page, from the options that begin returns for the given ones.
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
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) },
	}
}

// TestDependentWatch checks that a ListerWatcher can first open and read another WATCH.
func TestDependentWatch(t *testing.T) {
	server := serve(t, apiserver.Options{})
	plain := fill(t, server.Config(), configMap("one", "a", nil))
	client := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1()
	began := make(chan struct{}, 10)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.ConfigMaps("one").List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			namespaces, err := client.Namespaces().Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			// It waits until the namespace exists.
			defer namespaces.Stop()
			for event := range namespaces.ResultChan() {
				if ns, ok := event.Object.(*corev1.Namespace); ok && ns.Name == "one" {
					began <- struct{}{}
					return client.ConfigMaps("one").Watch(ctx, o)
				}
			}
			return nil, errors.New("the watch of namespaces ended")
		},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := plain.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inf := NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil)
	calls := newRecorder()
	if _, err := inf.AddEventHandler(calls); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	made, err := plain.CoreV1().ConfigMaps("one").Create(context.Background(), configMap("one", "b", nil), metav1.CreateOptions{})
	check.NoError(t, err)
	calls.wait(t, "add "+show(made))
	if len(began) == 0 {
		t.Error("the watch was not begun by its own means")
	}
	stop()
}
