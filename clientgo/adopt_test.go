//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// counting wraps client-go's informer and counts calls.
type counting struct {
	cache.SharedIndexInformer
	handlers atomic.Int32
}

func (c *counting) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.handlers.Add(1)
	return c.SharedIndexInformer.AddEventHandler(h)
}

// TestAdoptsClientGosAlone checks that a wrapper around client-go's informer remains unchanged, for
// any wrapped informer.
func TestAdoptsClientGosAlone(t *testing.T) {
	f := newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"})
	built := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	own := &counting{SharedIndexInformer: built}
	inf := f.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return own })
	if inf != cache.SharedIndexInformer(own) {
		t.Errorf("another program's informer became %T", inf)
	}
	if _, err := inf.AddEventHandler(newRecorder()); err != nil || own.handlers.Load() != 1 {
		t.Errorf("its own method was not called: %v", err)
	}
}

// TestAdoptsAllFields checks that adopting keeps all arguments that an informer was built with,
// including its description, and that the linked client-go's informers have only known fields.
func TestAdoptsAllFields(t *testing.T) {
	built := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods"})
	inf, ok := adopt(built, "", Options{}).(*informer)
	if !ok || inf.name != "my pods" || !strings.Contains(inf.HasSyncedChecker().Name(), "my pods") {
		t.Fatalf("%T with the description %q", inf, inf.name)
	}
	// The engine uses that name for the informer in errors, metrics and the debug page.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = inf.engine.Run(ctx)
	if err := inf.engine.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "my pods: ") {
		t.Errorf("the engine says %v", err)
	}
	with, ok := AdoptWithOptions(built, Options{PinDecoded: true, Server: &weir.ServerGroup{}}).(*informer)
	if !ok || !with.sink.pin || with.name != "my pods" {
		t.Errorf("with options it became %T", with)
	}
	if unknown := unknownFields(built); len(unknown) > 0 {
		t.Errorf("client-go's informers have fields that are not known here: %v", unknown)
	}
	later := struct {
		synced      chan struct{}
		workerCount int
	}{make(chan struct{}), 1}
	if unknown := unknownFields(&later); len(unknown) != 1 || unknown[0] != "workerCount" {
		t.Errorf("unknown: %v", unknown)
	}
}

// limiter is a rate limiter that counts.
type limiter struct {
	waited atomic.Int32
}

func (l *limiter) TryAccept() bool            { l.waited.Add(1); return true }
func (l *limiter) Accept()                    { l.waited.Add(1) }
func (l *limiter) Stop()                      {}
func (l *limiter) QPS() float32               { return 1 }
func (l *limiter) Wait(context.Context) error { l.waited.Add(1); return nil }

// TestKeepsRateLimits checks that a chosen rate limit is kept. client-go's default is meant for
// writers and would only delay the start.
func TestKeepsRateLimits(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	cfg := server.Config()
	cfg.QPS, cfg.RateLimiter = 0, &limiter{}
	f := newFactory(t, cfg)
	f.Core().V1().Pods().Informer()
	begin(t, f)
	if cfg.RateLimiter.(*limiter).waited.Load() == 0 {
		t.Error("the rate limiter was not asked")
	}
	for _, test := range []struct{ qps, want float32 }{{0, -1}, {3, 3}, {-1, -1}} {
		if got, err := clientFor(&rest.Config{QPS: test.qps}, func(cfg *rest.Config) (*rest.Config, error) { return cfg, nil }); err != nil || got.QPS != test.want {
			t.Errorf("QPS %v became %v, %v", test.qps, got, err)
		}
	}
}

// TestTransformErrorIsReported checks that a transform's error is reported with the object that is
// left out.
func TestTransformErrorIsReported(t *testing.T) {
	reported := make(chan error, 10)
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) {
		select {
		case reported <- err:
		default:
		}
	}}
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil))
	bad := errors.New("not this one")
	f := newFactory(t, server.Config(), WithTransform(func(obj any) (any, error) {
		if obj.(metav1.Object).GetName() == "b" {
			return nil, bad
		}
		return obj, nil
	}))
	inf := f.Core().V1().ConfigMaps().Informer()
	begin(t, f)
	select {
	case err := <-reported:
		if !errors.Is(err, bad) || !strings.Contains(err.Error(), "one/b") {
			t.Errorf("reported %v", err)
		}
	case <-time.After(waitTimeout):
		t.Error("nothing was reported")
	}
	if keys := inf.GetStore().ListKeys(); len(keys) != 1 {
		t.Errorf("holds %v", keys)
	}
}

// TestFactoryOfAClient checks that the factory of a client that was built elsewhere, such as a fake
// one, returns Weir's informers.
func TestFactoryOfAClient(t *testing.T) {
	client := fake.NewClientset(configMap("one", "a", nil))
	f := NewSharedInformerFactoryWithOptions(client, 0, WithNamespace("one"))
	inf := f.Core().V1().ConfigMaps().Informer()
	calls := newRecorder()
	if _, err := inf.AddEventHandler(calls); err != nil {
		t.Fatal(err)
	}
	if _, err := informerOf(inf); err != nil {
		t.Error(err)
	}
	begin(t, f)
	if _, err := f.Core().V1().ConfigMaps().Lister().ConfigMaps("one").Get("a"); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().ConfigMaps("one").Create(context.Background(), configMap("one", "b", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	calls.wait(t, "add one/b@ v=")
}

// client-gen and informer-gen generate such code for custom resources.

type widgetset interface{ Widgets() cache.ListerWatcher }

type widgetClients struct{ lw cache.ListerWatcher }

func (w widgetClients) Widgets() cache.ListerWatcher { return w.lw }

type newInformerFunc func(widgetset, time.Duration) cache.SharedIndexInformer

type generatedFactory interface {
	Start(stopCh <-chan struct{})
	InformerFor(obj runtime.Object, newFunc newInformerFunc) cache.SharedIndexInformer
	InformerName() *cache.InformerName
}

type widgetInformer struct{ factory generatedFactory }

func (w widgetInformer) Informer() cache.SharedIndexInformer {
	return w.factory.InformerFor(&Widget{}, func(client widgetset, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(client.Widgets(), &Widget{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// TestGeneratedFactory checks that generated accessors of custom resources accept Weir's factory.
func TestGeneratedFactory(t *testing.T) {
	server := &widgetServer{keys: []string{"apiVersion", "items", "kind", "metadata"}, widgets: 3}
	client := widgetClients{generated(t, serveWidgets(t, server))}
	f := NewGenerated[widgetset, newInformerFunc](client, 0)
	inf := widgetInformer{f}.Informer()
	if second := (widgetInformer{f}).Informer(); second != inf {
		t.Error("two informers of one type")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	f.StartWithContext(ctx)
	check.NoError(t, f.WaitForCacheSyncWithContext(ctx).AsError())
	if n := len(inf.GetStore().List()); n != 3 || inf.(*informer).stats.BodyBytes.Load() == 0 {
		t.Errorf("%d widgets, %d bytes captured", n, inf.(*informer).stats.BodyBytes.Load())
	}
	cancel()
	f.Shutdown()
}

// TestFactoriesByResourceForClients checks the dynamic and the metadata factory of a client, of a
// wrapped config and a fake one.
func TestFactoriesByResourceForClients(t *testing.T) {
	cfg := serve(t, apiserver.Options{}).Config()
	fill(t, cfg, configMap("one", "a", nil), configMap("two", "b", nil))
	Wrap(cfg)
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	fakeDynamic := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, configMap("one", "a", nil), configMap("two", "b", nil))
	fakeObject := func(namespace, name string) runtime.Object {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		}
	}
	metadataScheme := metadatafake.NewTestScheme()
	check.NoError(t, metav1.AddMetaToScheme(metadataScheme))
	fakeMetadata := metadatafake.NewSimpleMetadataClient(metadataScheme, fakeObject("one", "a"), fakeObject("two", "b"))
	type common interface {
		Start(<-chan struct{})
		ForResource(schema.GroupVersionResource) informers.GenericInformer
		WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
		Shutdown()
	}
	for name, factory := range map[string]common{
		"dynamic":        NewDynamicSharedInformerFactoryWithOptions(dynamic.NewForConfigOrDie(cfg), 0),
		"metadata":       NewMetadataSharedInformerFactoryWithOptions(metadata.NewForConfigOrDie(cfg), 0),
		"dynamic, fake":  NewDynamicSharedInformerFactoryWithOptions(fakeDynamic, 0),
		"metadata, fake": NewMetadataSharedInformerFactoryWithOptions(fakeMetadata, 0),
	} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			generic := factory.ForResource(gvr)
			factory.Start(stop)
			if !factory.WaitForCacheSync(stop)[gvr] {
				t.Error("not synced")
			}
			if all, err := generic.Lister().List(labels.Everything()); err != nil || len(all) != 2 {
				t.Errorf("%v, %v", all, err)
			}
			if Err(generic.Informer()) != nil {
				t.Error("not an informer of ours that is current")
			}
			close(stop)
			factory.Shutdown()
		})
	}
}

// reflectorsDescription runs an informer whose lists fail, and returns how the Reflector that its
// watch error handler receives describes the listed objects. The default handler logs that.
func reflectorsDescription(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var description string
	check.NoError(t, inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
		if cancel(); description == "" {
			description = r.TypeDescription()
		}
	}))
	inf.RunWithContext(ctx)
	return description
}

// TestReflectorsDescription checks that watch error handlers receive a description of the listed
// objects: the informer's description, or else the example's type, as in client-go. An informer of
// the metadata factory, which client-go does not describe, has its resource.
func TestReflectorsDescription(t *testing.T) {
	cfg := &rest.Config{Host: "http://server", Transport: notServed{}}
	typed, byResource, partial := kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg), metadata.NewForConfigOrDie(cfg)
	described := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods"})
	}
	for name, test := range map[string]struct {
		ours, theirs cache.SharedIndexInformer
		want         string
	}{
		"typed": {
			NewSharedInformerFactoryWithOptions(typed, 0).Core().V1().ConfigMaps().Informer(),
			informers.NewSharedInformerFactory(typed, 0).Core().V1().ConfigMaps().Informer(), "*v1.ConfigMap",
		},
		"dynamic": {
			NewDynamicSharedInformerFactoryWithOptions(byResource, 0).ForResource(configMaps).Informer(),
			dynamicinformer.NewDynamicSharedInformerFactory(byResource, 0).ForResource(configMaps).Informer(), "/v1, Resource=configmaps",
		},
		"metadata":  {ours: NewMetadataSharedInformerFactoryWithOptions(partial, 0).ForResource(configMaps).Informer(), want: "/v1, Resource=configmaps"},
		"described": {Adopt(described()), described(), "my pods"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.theirs != nil {
				check.Equal(t, reflectorsDescription(t, test.theirs), test.want, "client-go lists")
			}
			check.Equal(t, reflectorsDescription(t, test.ours), test.want, "lists")
		})
	}
}
