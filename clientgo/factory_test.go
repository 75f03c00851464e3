package clientgo

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
)

func serve(t *testing.T, opts apiserver.Options) *apiserver.Server {
	t.Helper()
	opts.AnyNamespace = true
	server, err := apiserver.New(opts)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func newFactory(t *testing.T, cfg *rest.Config, opts ...Option) informers.SharedInformerFactory {
	t.Helper()
	f, err := NewSharedInformerFactory(cfg, 0, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// begin runs a factory until the test ends, and waits until it has synced.
func begin(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); f.Shutdown() })
	within, done := context.WithTimeout(ctx, waitTimeout)
	defer done()
	if err := f.WaitForCacheSyncWithContext(within).AsError(); err != nil {
		t.Fatal(err)
	}
}

func configMap(namespace, name string, l map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l},
		Data:       map[string]string{"name": name},
	}
}

func fill(t *testing.T, cfg *rest.Config, maps ...*corev1.ConfigMap) kubernetes.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cfg)
	for _, m := range maps {
		if _, err := client.CoreV1().ConfigMaps(m.Namespace).Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// TestEveryResource checks that each resource of client-go's factory has one Weir informer, of the
// same type and with the same indexers, by each way to request it.
func TestEveryResource(t *testing.T) {
	f := newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"}).(*factory)
	theirs := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	n := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		want, err := theirs.ForResource(gvr)
		got, ourErr := f.ForResource(gvr)
		if (err == nil) != (ourErr == nil) {
			t.Errorf("%s: client-go %v, weir %v", gvr, err, ourErr)
		}
		if err != nil || ourErr != nil {
			continue
		}
		n++
		inf, ok := got.Informer().(*informer)
		fields, apart := fieldsOf(want.Informer())
		if !ok || !apart {
			t.Errorf("%s: not one of ours: %T", gvr, got.Informer())
			continue
		}
		if inf.sink.codec.Type() != reflect.TypeOf(fields.example) {
			t.Errorf("%s: informer of %s, want %T", gvr, inf.sink.codec.Type(), fields.example)
		}
		if len(inf.GetIndexer().GetIndexers()) != len(fields.indexers) {
			t.Errorf("%s: indexers %v", gvr, inf.GetIndexer().GetIndexers())
		}
		if got.Lister() == nil {
			t.Errorf("%s: no lister", gvr)
		}
	}
	if n < 60 {
		t.Errorf("only %d resources", n)
	}
	if _, err := f.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "unheardof"}); err == nil {
		t.Error("a resource that does not exist has an informer")
	}
	// The typed accessors share their informers with ForResource.
	pods, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		t.Fatal(err)
	}
	probe := cache.Indexers{"probe": func(any) ([]string, error) { return nil, nil }}
	if err := f.Core().V1().Pods().Informer().AddIndexers(probe); err != nil {
		t.Fatal(err)
	}
	if _, ok := pods.Informer().GetIndexer().GetIndexers()["probe"]; !ok {
		t.Error("Pods() and ForResource give different informers")
	}
	// So do all groups.
	v := reflect.ValueOf(f)
	for i := range v.NumMethod() {
		if m := v.Type().Method(i); m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && strings.HasPrefix(m.Type.Out(0).PkgPath(), "k8s.io/client-go/informers/") {
			if v.Method(i).Call(nil)[0].IsNil() {
				t.Errorf("%s gives nothing", m.Name)
			}
		}
	}
}

// TestFactoryOptions checks that options affect requests and objects.
func TestFactoryOptions(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(),
		configMap("one", "a", map[string]string{"app": "x"}), configMap("one", "b", nil), configMap("two", "c", map[string]string{"app": "x"}))
	strip := func(obj any) (any, error) {
		obj.(*corev1.ConfigMap).Data = map[string]string{"stripped": "yes"}
		return obj, nil
	}
	selectApp := func(o *metav1.ListOptions) { o.LabelSelector = "app=x" }
	name, err := cache.NewInformerName("clientgo-test")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		opts []Option
		want string
		data string
	}{
		"none":       {nil, "one/a one/b two/c", "a"},
		"namespace":  {[]Option{WithNamespace("one")}, "one/a one/b", "a"},
		"tweak":      {[]Option{WithTweakListOptions(selectApp)}, "one/a two/c", "a"},
		"transform":  {[]Option{WithTransform(strip)}, "one/a one/b two/c", ""},
		"name":       {[]Option{WithInformerName(name)}, "one/a one/b two/c", "a"},
		"pinned":     {[]Option{WithOptions(Options{PinDecoded: true})}, "one/a one/b two/c", "a"},
		"private":    {[]Option{WithOptions(Options{PrivateCopies: true})}, "one/a one/b two/c", "a"},
		"uncaptured": {[]Option{WithOptions(Options{NoCapture: true})}, "one/a one/b two/c", "a"},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			f := newFactory(t, server.Config(), test.opts...)
			maps := f.Core().V1().ConfigMaps()
			lister := maps.Lister()
			begin(t, f)
			all, err := lister.List(labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, m := range all {
				keys = append(keys, m.Namespace+"/"+m.Name)
			}
			if got := strings.Join(keys, " "); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			got, err := lister.ConfigMaps("one").Get("a")
			if err != nil || got.Data["name"] != test.data {
				t.Errorf("%v, %v", got, err)
			}
			some, err := lister.ConfigMaps("one").List(labels.SelectorFromSet(labels.Set{"app": "x"}))
			if err != nil || len(some) != 1 {
				t.Errorf("by namespace and label: %v, %v", some, err)
			}
		})
	}
	if _, err := cache.NewInformerName("clientgo-test"); err != nil {
		t.Errorf("the name was not released: %v", err)
	}
}

// TestInformerFor checks that InformerFor adopts an informer from a custom constructor, with its
// transform and selector, and returns informers unchanged that are not client-go's or have
// handlers.
func TestInformerFor(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", map[string]string{"app": "x"}), configMap("one", "b", nil))
	f := newFactory(t, server.Config())
	inf := f.InformerFor(&corev1.ConfigMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		inf := coreinformers.NewFilteredConfigMapInformer(client, "one", resync, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = "app=x" })
		if err := inf.SetTransform(func(obj any) (any, error) {
			obj.(*corev1.ConfigMap).Data = nil
			return obj, nil
		}); err != nil {
			t.Error(err)
		}
		return inf
	})
	if _, ok := inf.(*informer); !ok {
		t.Fatalf("not taken over: %T", inf)
	}
	other := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0, nil)
	if got := f.InformerFor(&corev1.Secret{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return other }); got != other {
		t.Error("an informer that is ours already was replaced")
	}
	handled := coreinformers.NewServiceInformer(f.(*factory).client, "", 0, nil)
	if _, err := handled.AddEventHandler(newRecorder()); err != nil {
		t.Fatal(err)
	}
	if got := f.InformerFor(&corev1.Service{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return handled }); got != handled {
		t.Error("an informer that has handlers was replaced")
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	all, err := f.Core().V1().ConfigMaps().Lister().List(labels.Everything())
	if err != nil || len(all) != 1 || all[0].Name != "a" || all[0].Data != nil {
		t.Errorf("%v, %v", all, err)
	}
	stop()
}

// TestFactoryError checks that an invalid config is an error.
func TestFactoryError(t *testing.T) {
	for name, bad := range map[string]*rest.Config{"no config": nil, "a bad host": {Host: "http://[::bad"}} {
		if _, err := NewSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewSharedInformerFactory", name)
		}
		if _, err := NewDynamicSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewDynamicSharedInformerFactory", name)
		}
		if _, err := NewMetadataSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewMetadataSharedInformerFactory", name)
		}
	}
}

// TestFactoryNotSynced checks that the factory's wait ends with its context and reports which
// informers have not synced, and that no informer starts after Shutdown.
func TestFactoryNotSynced(t *testing.T) {
	f := newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"})
	f.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	within, done := context.WithTimeout(ctx, 50*time.Millisecond)
	defer done()
	result := f.WaitForCacheSyncWithContext(within)
	if err := result.AsError(); err == nil || !strings.Contains(err.Error(), "Pod") {
		t.Errorf("error %v", err)
	}
	if result.Synced[reflect.TypeFor[*corev1.Pod]()] {
		t.Error("synced without a server")
	}
	cancel()
	f.Shutdown()
	f.Core().V1().Secrets().Informer()
	f.Start(make(chan struct{}))
	if started := f.WaitForCacheSync(within.Done()); len(started) != 1 {
		t.Errorf("started after Shutdown: %v", started)
	}
}
