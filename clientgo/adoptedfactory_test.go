//go:build !weir_safe

package clientgo

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

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
	check.NoError(t, err)
	probe := cache.Indexers{"probe": func(any) ([]string, error) { return nil, nil }}
	check.NoError(t, f.Core().V1().Pods().Informer().AddIndexers(probe))
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
	check.NoError(t, err)
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
			check.NoError(t, err)
			var keys []string
			for _, m := range all {
				keys = append(keys, m.Namespace+"/"+m.Name)
			}
			check.Equal(t, strings.Join(keys, " "), test.want)
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

// TestFactoryOfShard checks that all informers of a factory have its shard, for any order of its
// options.
func TestFactoryOfShard(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 200})
	n := 0
	for i := range 2 {
		shard := WithShard(weir.Shard{Index: i, Count: 2})
		for _, opts := range [][]Option{{shard, WithOptions(Options{ShareDecoded: true})}, {WithOptions(Options{Shard: weir.Shard{Index: 4, Count: 9}}), shard}} {
			f, err := NewSharedInformerFactory(server.Config(), 0, opts...)
			check.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			pods := f.Core().V1().Pods().Informer()
			f.StartWithContext(ctx)
			synced(t, pods.HasSyncedChecker())
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

// TestFakeClientset checks that handlers receive each change in order and none twice, although a
// fake clientset sets no resourceVersions.
func TestFakeClientset(t *testing.T) {
	for name, make := range bothConstructors {
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
			inf := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
			if name == "weir" {
				fields, ok := fieldsOf(inf)
				if !ok {
					t.Fatal("cannot be taken apart")
				}
				inf = make(fields.lw, fields.example, fields.resync, fields.indexers)
			}
			calls := newRecorder()
			if _, err := inf.AddEventHandler(calls); err != nil {
				t.Fatal(err)
			}
			stop := run(t, inf)
			synced(t, inf.HasSyncedChecker())
			calls.waitCount(t, 1)
			opened.wait(t)
			pods := client.CoreV1().Pods("d")
			for v := 2; v < 6; v++ {
				if _, err := pods.Update(ctx, pod("a", strconv.Itoa(v)), metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := pods.Create(ctx, pod("b", "1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			check.NoError(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
			calls.waitCount(t, 7)
			versions := strings.NewReplacer("@1 ", "@ ", "@2 ", "@ ", "@3 ", "@ ", "@4 ", "@ ", "@5 ", "@ ", "@6 ", "@ ")
			var got []string
			for _, line := range calls.all() {
				got = append(got, versions.Replace(line))
			}
			want := "add d/a@ v=1 initial|update d/a@ v=1 -> d/a@ v=2|update d/a@ v=2 -> d/a@ v=3|update d/a@ v=3 -> d/a@ v=4|" +
				"update d/a@ v=4 -> d/a@ v=5|add d/b@ v=1|delete d/a@ v=5"
			check.Equal(t, strings.Join(got, "|"), want, "told")
			stop()
		})
	}
}
