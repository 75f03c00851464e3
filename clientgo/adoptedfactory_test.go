//go:build !weir_safe

package clientgo

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestEveryResource checks that Weir's factory has an informer for each resource of client-go's
// factory, with the same object type and indexers. ForResource, InformerFor and the typed accessors
// must return the same informer.
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
	check.NoError(t, err)
	probe := cache.Indexers{"probe": func(any) ([]string, error) { return nil, nil }}
	check.NoError(t, f.Core().V1().Pods().Informer().AddIndexers(probe))
	if _, ok := pods.Informer().GetIndexer().GetIndexers()["probe"]; !ok {
		t.Error("Pods() and ForResource give different informers")
	}
	// Each method for an API group must return a non-nil interface.
	v := reflect.ValueOf(f)
	for i := range v.NumMethod() {
		if m := v.Type().Method(i); m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && strings.HasPrefix(m.Type.Out(0).PkgPath(), "k8s.io/client-go/informers/") {
			if v.Method(i).Call(nil)[0].IsNil() {
				t.Errorf("%s gives nothing", m.Name)
			}
		}
	}
}

// TestFactoryOfShard checks that all informers of a factory have the shard that WithShard sets,
// whether WithShard precedes or follows WithOptions.
func TestFactoryOfShard(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 200})
	n := 0
	for i := range 2 {
		shard := WithShard(weir.Shard{Index: i, Count: 2})
		for _, opts := range [][]Option{{shard, WithOptions(Options{ShareDecoded: true})}, {WithOptions(Options{Shard: weir.Shard{Index: 4, Count: 9}}), shard}} {
			f := NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0, opts...)
			ctx, cancel := context.WithCancel(t.Context())
			pods := f.Core().V1().Pods().Informer()
			f.Start(ctx.Done())
			synced(t, pods)
			held := len(pods.GetStore().ListKeys())
			if n += held; held < 60 || held > 140 {
				t.Errorf("shard %d of 2 has %d of 200", i, held)
			}
			cancel()
			f.Shutdown()
		}
	}
	check.Equal(t, n, 400, "the shards have objects, two times over")
}

// TestInformerFor checks that InformerFor replaces an informer that a custom constructor has built
// by a Weir informer with the same selector and, since client-go v0.36, the same transform. Earlier
// factories clear the transform of each informer if they have none.
func TestInformerFor(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", map[string]string{"app": "x"}), configMap("one", "b", nil))
	f := newFactory(t, server.Config())
	inf := f.InformerFor(&corev1.ConfigMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		inf := coreinformers.NewFilteredConfigMapInformer(client, "one", resync, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = "app=x" })
		check.NoError(t, inf.SetTransform(withoutData))
		return inf
	})
	runSynced(t, inf)
	all, err := f.Core().V1().ConfigMaps().Lister().List(labels.Everything())
	if err != nil || len(all) != 1 || all[0].Name != "a" || (all[0].Data == nil) != keepsTransforms {
		t.Errorf("%v, %v", all, err)
	}
}

// TestFilteredFactories checks that the informers of filtered factories store exactly the objects
// that the factory's namespace and its TweakListOptionsFunc select.
func TestFilteredFactories(t *testing.T) {
	server := serve(t, apiserver.Options{})
	held := map[string]string{"held": "yes"}
	fill(t, server.Config(), configMap("one", "a", held), configMap("one", "b", nil), configMap("two", "c", held))
	cfg := capturing(server.Config())
	for client, inf := range map[string]cache.SharedIndexInformer{
		"typed":    NewFilteredSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0, "one", onlyHeld).Core().V1().ConfigMaps().Informer(),
		"metadata": NewFilteredMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0, "one", onlyHeld).ForResource(configMaps).Informer(),
		"dynamic":  NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0, "one", onlyHeld).ForResource(configMaps).Informer(),
	} {
		runSynced(t, inf)
		_, err := informerOf(inf)
		if keys := inf.GetStore().ListKeys(); err != nil || !slices.Equal(keys, []string{"one/a"}) {
			t.Errorf("%s: %v, holds %v", client, err, keys)
		}
	}
}

// TestFactoriesByResource checks which objects the informers of the dynamic and the metadata
// factory store, and which events their handlers receive. The factories use a config or a fake
// client; the events are checked only with a config.
func TestFactoriesByResource(t *testing.T) {
	server := serve(t, apiserver.Options{})
	a, b := configMap("one", "a", map[string]string{"v": "1"}), configMap("two", "b", nil)
	client := fill(t, server.Config(), a, b)
	metadataOf := func(m *corev1.ConfigMap) runtime.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: m.ObjectMeta}
	}
	metadataScheme := metadatafake.NewTestScheme()
	check.NoError(t, metav1.AddMetaToScheme(metadataScheme))
	for name, test := range map[string]struct {
		factory untypedFactory
		want    int
	}{
		"dynamic":        {NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(server.Config()), 0), 2},
		"metadata":       {NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(server.Config()), 0, WithNamespace("one")), 1},
		"dynamic, fake":  {NewDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(scheme.Scheme, a, b), 0), 2},
		"metadata, fake": {NewMetadataSharedInformerFactory(metadatafake.NewSimpleMetadataClient(metadataScheme, metadataOf(a), metadataOf(b)), 0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnding(t)
			generic := test.factory.ForResource(configMaps)
			calls := observe(t, generic.Informer())
			test.factory.Start(e.Done())
			t.Cleanup(func() { e.end(); test.factory.Shutdown() })
			if !test.factory.WaitForCacheSync(e.Done())[configMaps] || Err(generic.Informer()) != nil {
				t.Fatal("not an informer of ours that is current")
			}
			all, err := generic.Lister().List(labels.Everything())
			if err != nil || len(all) != test.want {
				t.Errorf("%v, %v", all, err)
			}
			one, err := generic.Lister().ByNamespace("one").Get("a")
			check.NoError(t, err)
			if one.(metav1.Object).GetLabels()["v"] != "1" || one.GetObjectKind().GroupVersionKind().Kind == "" && name == "dynamic" {
				t.Errorf("%v", one)
			}
			if strings.HasSuffix(name, "fake") {
				return
			}
			made := create(t, client, configMap("one", name, map[string]string{"v": "2"}))
			calls.wait(t, "add "+show(made))
			check.NoError(t, client.CoreV1().ConfigMaps("one").Delete(t.Context(), name, metav1.DeleteOptions{}))
			// A deleted object has the resourceVersion of its deletion.
			calls.until(t, "the deletion", func(lines []string) bool {
				last := lines[len(lines)-1]
				return strings.HasPrefix(last, "delete one/"+name+"@") && !strings.Contains(last, "@"+made.ResourceVersion+" ")
			})
		})
	}
}

// TestFakeClientset checks that handlers receive each change once and in order, although a fake
// clientset sets no resourceVersions.
func TestFakeClientset(t *testing.T) {
	for name, factoryOf := range map[string]func(kubernetes.Interface) informers.SharedInformerFactory{
		"client-go": func(c kubernetes.Interface) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactory(c, 0)
		},
		"weir": func(c kubernetes.Interface) informers.SharedInformerFactory {
			return NewSharedInformerFactoryWithOptions(c, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			first := pod("a", "1")
			first.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
			client, opened := fake.NewClientset(first), newWatches()
			client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
				w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
				opened <- struct{}{}
				return true, w, err
			})
			inf := factoryOf(client).Core().V1().Pods().Informer()
			if _, err := informerOf(inf); (err == nil) != (name == "weir") {
				t.Errorf("is %T", inf)
			}
			calls := observe(t, inf)
			runSynced(t, inf)
			calls.waitCount(t, 1)
			opened.wait(t)
			pods := client.CoreV1().Pods("d")
			for v := 2; v < 6; v++ {
				_, err := pods.Update(ctx, pod("a", strconv.Itoa(v)), metav1.UpdateOptions{})
				check.NoError(t, err)
			}
			_, err := pods.Create(ctx, pod("b", "1"), metav1.CreateOptions{})
			check.NoError(t, err)
			check.NoError(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
			calls.waitCount(t, 7)
			got := regexp.MustCompile(`@\d+ `).ReplaceAllString(strings.Join(calls.all(), "|"), "@ ")
			want := "add d/a@ v=1 initial|update d/a@ v=1 -> d/a@ v=2|update d/a@ v=2 -> d/a@ v=3|update d/a@ v=3 -> d/a@ v=4|" +
				"update d/a@ v=4 -> d/a@ v=5|add d/b@ v=1|delete d/a@ v=5"
			check.Equal(t, got, want, "told")
		})
	}
}
