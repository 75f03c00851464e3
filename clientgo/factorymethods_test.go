package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// factoryCall is a call of a factory's method. Its result must be the same with client-go's factory
// and with Weir's.
type factoryCall[F any] struct {
	name string // the method or option, and how it is used
	call func(t *testing.T, f F) string
	opts []option
}

// option is an option of client-go's typed factory, with the corresponding option of Weir's
// factory.
type option struct {
	theirs informers.SharedInformerOption
	ours   Option
}

// ending is a context that ends when the test calls end, or with the test.
type ending struct {
	context.Context
	end func()
}

func newEnding(t *testing.T) ending {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ending{ctx, cancel}
}

// syncedTypes formats the result of a typed factory's WaitForCacheSync.
func syncedTypes(synced map[reflect.Type]bool) string {
	var out []string
	for t, ok := range synced {
		out = append(out, fmt.Sprint(t, " ", ok))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// syncedResources formats the result of a dynamic or metadata factory's WaitForCacheSync.
func syncedResources(synced map[schema.GroupVersionResource]bool) string {
	var out []string
	for gvr, ok := range synced {
		out = append(out, fmt.Sprint(gvr.Resource, " ", ok))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// held waits until an informer has synced, and formats the stored objects.
func held(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	synced(t, inf)
	return outcome(inf.GetStore().List())
}

// holding starts a factory's informer of ConfigMaps, and formats the objects that the informer
// stores.
func holding(t *testing.T, f informers.SharedInformerFactory) string {
	inf := f.Core().V1().ConfigMaps().Informer()
	f.Start(newEnding(t).Done())
	return held(t, inf)
}

var typedCalls = []factoryCall[informers.SharedInformerFactory]{
	{name: "Start", call: holding},
	{name: "Start of what was asked for before", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		e := newEnding(t)
		first := f.Core().V1().ConfigMaps().Informer()
		f.Start(e.Done())
		second := f.Core().V1().Secrets().Informer()
		reported := syncedTypes(f.WaitForCacheSync(e.Done()))
		before := second.HasSynced()
		f.Start(e.Done())
		return outcome(reported, before, syncedTypes(f.WaitForCacheSync(e.Done())), held(t, first), held(t, second))
	}},
	{name: "Shutdown", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		e := newEnding(t)
		inf := f.Core().V1().ConfigMaps().Informer()
		f.Start(e.Done())
		held(t, inf)
		e.end()
		f.Shutdown()
		late := f.Core().V1().Secrets().Informer()
		f.Start(newEnding(t).Done())
		return outcome(inf.IsStopped(), inf.GetStore().List(), late.HasSynced(), late.IsStopped())
	}},
	{name: "WaitForCacheSync in vain", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		f.Core().V1().ConfigMaps().Informer()
		return outcome(syncedTypes(f.WaitForCacheSync(stoppedChannel())))
	}},
	{name: "ForResource", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		informer, err := f.ForResource(configMaps)
		unknown, err2 := f.ForResource(configMaps.GroupResource().WithVersion("v9"))
		f.Start(newEnding(t).Done())
		return outcome(err, held(t, informer.Informer()), unknown == nil, err2, informer.Informer() == f.Core().V1().ConfigMaps().Informer())
	}},
	{name: "ForResource's lister", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		informer, err := f.ForResource(configMaps)
		if err != nil {
			return err.Error()
		}
		f.Start(newEnding(t).Done())
		held(t, informer.Informer())
		return outcome(generic(informer.Lister())...)
	}},
	{name: "InformerFor", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		made := 0
		newFunc := func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			made++
			return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, resync, cache.Indexers{"x": byNode})
		}
		one := f.InformerFor(&corev1.ConfigMap{}, newFunc)
		two := f.InformerFor(&corev1.ConfigMap{}, newFunc)
		_, indexed := one.GetIndexer().GetIndexers()["x"]
		return outcome(made, one == two, indexed, one == f.Core().V1().ConfigMaps().Informer())
	}},
	{name: "Core's lister", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		lister := f.Core().V1().ConfigMaps().Lister()
		holding(t, f)
		all, err := lister.List(labels.Everything())
		some, err2 := lister.ConfigMaps("one").List(labels.SelectorFromSet(labels.Set{"held": "yes"}))
		one, err3 := lister.ConfigMaps("one").Get("a")
		_, err4 := lister.ConfigMaps("one").Get("c")
		return outcome(shownOf(all), err, shownOf(some), err2, show(one), err3, err4, apierrors.IsNotFound(err4))
	}},
	{name: "WithNamespace", call: holding, opts: []option{{informers.WithNamespace("one"), WithNamespace("one")}}},
	{name: "WithTweakListOptions", call: holding, opts: []option{{informers.WithTweakListOptions(onlyHeld), WithTweakListOptions(onlyHeld)}}},
	{name: "WithTransform", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		holding(t, f)
		o, err := f.Core().V1().ConfigMaps().Lister().ConfigMaps("one").Get("a")
		return outcome(err, o.Data)
	}, opts: []option{{informers.WithTransform(withoutData), WithTransform(withoutData)}}},
	{name: "WithCustomResyncConfig", call: func(t *testing.T, f informers.SharedInformerFactory) string {
		reported := observe(t, f.Core().V1().ConfigMaps().Informer())
		f.Start(newEnding(t).Done())
		reported.until(t, "a resync", func(lines []string) bool {
			return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "update") })
		})
		return "resynced"
	}, opts: []option{{informers.WithCustomResyncConfig(everySecond), WithCustomResyncConfig(everySecond)}}},
}

var everySecond = map[metav1.Object]time.Duration{&corev1.ConfigMap{}: time.Second}

func onlyHeld(o *metav1.ListOptions) { o.LabelSelector = "held=yes" }

func withoutData(o any) (any, error) {
	if m, ok := o.(*corev1.ConfigMap); ok {
		m.Data = nil
	}
	return o, nil
}

// generic returns the results of the methods of a generic lister.
func generic(lister cache.GenericLister) []any {
	all, err := lister.List(labels.Everything())
	one, err2 := lister.ByNamespace("one").Get("a")
	some, err3 := lister.ByNamespace("one").List(labels.SelectorFromSet(labels.Set{"held": "yes"}))
	none, err4 := lister.ByNamespace("two").Get("a")
	direct, err5 := lister.Get("two/c")
	return []any{shownOf(all), err, show(one), err2, shownOf(some), err3, none == nil, err4, apierrors.IsNotFound(err4), show(direct), err5}
}

func shownOf[T any](objects []T) string {
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	return outcome(all)
}

// untypedFactory is a dynamic or a metadata factory: both interfaces have the same methods.
type untypedFactory = dynamicinformer.DynamicSharedInformerFactory

var resourceCalls = []factoryCall[untypedFactory]{
	{name: "Start", call: func(t *testing.T, f untypedFactory) string {
		inf := f.ForResource(configMaps).Informer()
		f.Start(newEnding(t).Done())
		return held(t, inf)
	}},
	{name: "ForResource again", call: func(t *testing.T, f untypedFactory) string {
		return outcome(f.ForResource(configMaps).Informer() == f.ForResource(configMaps).Informer())
	}},
	{name: "ForResource's lister", call: func(t *testing.T, f untypedFactory) string {
		of := f.ForResource(configMaps)
		f.Start(newEnding(t).Done())
		held(t, of.Informer())
		return outcome(generic(of.Lister())...)
	}},
	{name: "WaitForCacheSync", call: func(t *testing.T, f untypedFactory) string {
		e := newEnding(t)
		none := syncedResources(f.WaitForCacheSync(e.Done()))
		f.ForResource(configMaps)
		f.Start(e.Done())
		f.ForResource(secrets)
		return outcome(none, syncedResources(f.WaitForCacheSync(e.Done())))
	}},
	{name: "StartWithContext", call: func(t *testing.T, f untypedFactory) string {
		inf := f.ForResource(configMaps).Informer()
		if later, ok := f.(interface{ StartWithContext(context.Context) }); ok { // dynamic: since v0.38
			later.StartWithContext(newEnding(t))
		} else {
			f.Start(newEnding(t).Done())
		}
		return held(t, inf)
	}},
	{name: "WaitForCacheSyncWithContext", call: func(t *testing.T, f untypedFactory) string {
		wait := reflect.ValueOf(f).MethodByName("WaitForCacheSyncWithContext") // since v0.38
		if !wait.IsValid() {
			return ""
		}
		e := newEnding(t)
		f.ForResource(configMaps)
		f.Start(e.Done())
		f.ForResource(secrets)
		result := wait.Call([]reflect.Value{reflect.ValueOf(e)})[0]
		return outcome(syncedResources(result.FieldByName("Synced").Interface().(map[schema.GroupVersionResource]bool)), result.FieldByName("Err").Interface())
	}},
	{name: "Shutdown", call: func(t *testing.T, f untypedFactory) string {
		e := newEnding(t)
		inf := f.ForResource(configMaps).Informer()
		f.Start(e.Done())
		held(t, inf)
		e.end()
		f.Shutdown()
		late := f.ForResource(secrets).Informer()
		f.Start(newEnding(t).Done())
		return outcome(inf.IsStopped(), inf.GetStore().List(), late.HasSynced(), late.IsStopped())
	}},
}

// TestFactoryMethods calls every method of the three factories (typed, dynamic, metadata) and of
// their listers, with every option. It compares the results of client-go's factory and Weir's, and
// fails if a later client-go adds a method. TestEveryResource checks the methods for API groups.
func TestFactoryMethods(t *testing.T) {
	t.Parallel()
	server := serve(t, apiserver.Options{})
	yes := map[string]string{"held": "yes"}
	fill(t, server.Config(), configMap("one", "a", yes), configMap("one", "b", nil), configMap("two", "c", yes))
	cfg := server.Config()
	calls[informers.SharedInformerFactory](t, append(typedCalls, newerTypedCalls...), func(opts []option) informers.SharedInformerFactory {
		var theirs []informers.SharedInformerOption
		for _, o := range opts {
			theirs = append(theirs, o.theirs)
		}
		return informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), time.Second, theirs...)
	}, map[string]func([]option) informers.SharedInformerFactory{
		"of a client": func(opts []option) informers.SharedInformerFactory {
			return NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), time.Second, oursOf(opts)...)
		},
		"of a wrapped config": func(opts []option) informers.SharedInformerFactory {
			return NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(capturing(cfg)), time.Second, oursOf(opts)...)
		},
	})
	calls[untypedFactory](t, resourceCalls, func([]option) untypedFactory {
		return dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
	}, map[string]func([]option) untypedFactory{
		"of a client": func([]option) untypedFactory {
			return NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		},
		"of a wrapped config": func([]option) untypedFactory {
			return NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(capturing(cfg)), 0)
		},
	})
	calls[untypedFactory](t, resourceCalls, func([]option) untypedFactory {
		return metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0)
	}, map[string]func([]option) untypedFactory{
		"of a client": func([]option) untypedFactory {
			return NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0)
		},
		"of a wrapped config": func([]option) untypedFactory {
			return NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(capturing(cfg)), 0)
		},
	})
}

func must[F any](f F, err error) F {
	if err != nil {
		panic(err)
	}
	return f
}

func oursOf(opts []option) (ours []Option) {
	for _, o := range opts {
		ours = append(ours, o.ours)
	}
	return ours
}

// calls runs each call of a table with client-go's factory and with each of Weir's factories, and
// compares the results.
func calls[F any](t *testing.T, table []factoryCall[F], theirs func([]option) F, ours map[string]func([]option) F) {
	t.Helper()
	interfaceOf := reflect.TypeFor[F]()
	for i := range interfaceOf.NumMethod() {
		m := interfaceOf.Method(i)
		accessor := m.Type.NumIn() == 0 && m.Type.NumOut() == 1 && strings.HasPrefix(m.Type.Out(0).PkgPath(), "k8s.io/client-go/informers/")
		if callsEveryMethod && !accessor && !slices.ContainsFunc(table, func(c factoryCall[F]) bool {
			first, _, _ := strings.Cut(c.name, " ")
			return first == m.Name || first == m.Name+"'s"
		}) {
			t.Errorf("%v.%s is not called", interfaceOf, m.Name)
		}
	}
	for _, c := range table {
		for how, ours := range ours {
			t.Run(fmt.Sprintf("%v %s %s", reflect.TypeOf(theirs(nil)), c.name, how), func(t *testing.T) {
				want, got := c.call(t, theirs(c.opts)), c.call(t, ours(c.opts))
				if got != want {
					t.Errorf("weir: %s\nclient-go: %s", got, want)
				}
			})
		}
	}
}

// This conversion compiles only if untypedFactory has all methods of the metadata factory.
var _ = (metadatainformer.SharedInformerFactory)(untypedFactory(nil))
