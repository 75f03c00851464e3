package controllerruntime_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDefaultFieldSelector checks that DefaultFieldSelector selects the stored objects.
func TestDefaultFieldSelector(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("a", "2", node("n2")))
		c := s.start(s.cache(cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("spec.nodeName", "n2")}))
		if got := s.listed(c); !slices.Equal(got, []string{"a/2"}) {
			t.Errorf("%v", got)
		}
	})
}

// TestReaderFailOnMissingInformer checks that with ReaderFailOnMissingInformer a read of a kind
// without an informer fails and creates no informer.
func TestReaderFailOnMissingInformer(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{ReaderFailOnMissingInformer: true}))
		for range 2 {
			var missing *cache.ErrResourceNotCached
			if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{}); !errors.As(err, &missing) {
				t.Errorf("Get: %v", err)
			}
			if err := c.List(s.ctx, &corev1.PodList{}); !errors.As(err, &missing) {
				t.Errorf("List: %v", err)
			}
		}
		s.informer(c, &corev1.Pod{})
		check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{}))
	})
}

// TestSyncPeriods checks that SyncPeriod causes repeated resyncs, whether it is set for all kinds,
// for one kind or for one namespace.
func TestSyncPeriods(t *testing.T) {
	for name, o := range map[string]cache.Options{
		"of all":         {SyncPeriod: new(time.Second)},
		"of a kind":      {ByObject: byPod(cache.ByObject{SyncPeriod: new(time.Second)})},
		"of a namespace": {DefaultNamespaces: map[string]cache.Config{"a": {SyncPeriod: new(time.Second)}}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *setup) {
				s.create(pod("a", "1"))
				c := s.start(s.cache(o))
				calls := s.follow(s.informer(c, &corev1.Pod{}))
				calls.waitFor("update a/1")
				calls.waitFor("update a/1")
			})
		})
	}
}

// TestConfigOfANamespace checks that the transform of one namespace does not change the objects of
// another namespace, whose objects the cache returns without deep copies.
func TestConfigOfANamespace(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("b", "1"))
		c := s.start(s.cache(cache.Options{ByObject: byPod(cache.ByObject{Namespaces: map[string]cache.Config{
			"a": {Transform: func(in any) (any, error) {
				in.(*corev1.Pod).Labels["seen"] = "yes"
				return in, nil
			}},
			"b": {UnsafeDisableDeepCopy: new(true)},
		}})}))
		for namespace, want := range map[string]string{"a": "yes", "b": ""} {
			var p corev1.Pod
			if err := c.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: "1"}, &p); err != nil || p.Labels["seen"] != want {
				t.Errorf("%s: %v, %v", namespace, p.Labels, err)
			}
		}
	})
}

// TestInformerForKind checks that GetInformerForKind and GetInformer return the same informer, and
// that a List with a continue token fails.
func TestInformerForKind(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{}))
		byKind, err := c.GetInformerForKind(s.ctx, podKind)
		check.NoError(t, err)
		if byKind != s.informer(c, &corev1.Pod{}) {
			t.Error("another informer than that of the object")
		}
		s.follow(byKind).waitFor("add initial=true a/1")
		if err := c.List(s.ctx, &corev1.PodList{}, client.Continue("1")); err == nil {
			t.Error("a page after the first was listed")
		}
	})
}

// TestSelectors checks that the cache contains exactly the objects that ByObject and the defaults
// select.
func TestSelectors(t *testing.T) {
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	n2 := fields.OneTermEqualSelector("spec.nodeName", "n2")
	for _, tc := range []struct {
		name    string
		options func(o *cache.Options)
		want    []string
	}{
		{"all", func(*cache.Options) {}, []string{"a/1", "a/2", "b/1", "b/2", "c/1"}},
		{"label", func(o *cache.Options) { o.ByObject = byPod(cache.ByObject{Label: web}) }, []string{"a/1", "a/2", "c/1"}},
		{"field", func(o *cache.Options) { o.ByObject = byPod(cache.ByObject{Field: n2}) }, []string{"a/2", "b/2"}},
		{"default label", func(o *cache.Options) { o.DefaultLabelSelector = web }, []string{"a/1", "a/2", "c/1"}},
		{"namespace by field", func(o *cache.Options) {
			o.ByObject = byPod(cache.ByObject{Field: fields.OneTermEqualSelector("metadata.namespace", "b")})
		}, []string{"b/1", "b/2"}},
		{"namespaces", func(o *cache.Options) {
			o.ByObject = byPod(cache.ByObject{Namespaces: map[string]cache.Config{"a": {LabelSelector: web}, "b": {FieldSelector: n2}}})
		}, []string{"a/1", "a/2", "b/2"}},
		{"all namespaces but", func(o *cache.Options) {
			o.DefaultNamespaces = map[string]cache.Config{"b": {FieldSelector: n2}, cache.AllNamespaces: {LabelSelector: web}}
		}, []string{"a/1", "a/2", "b/2", "c/1"}},
		{"default namespaces", func(o *cache.Options) {
			o.DefaultNamespaces = map[string]cache.Config{"a": {}, "c": {}}
		}, []string{"a/1", "a/2", "c/1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each(t, func(t *testing.T, s *setup) {
				s.create(pod("a", "1"), pod("a", "2", node("n2")), pod("b", "1", label("app", "db")),
					pod("b", "2", node("n2"), label("app", "db")), pod("c", "1"))
				var o cache.Options
				tc.options(&o)
				c := s.start(s.cache(o))
				if got := s.listed(c); !slices.Equal(got, tc.want) {
					t.Errorf("%v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestSelectorMoves checks that the cache removes an object that no longer matches the selector,
// and adds it again when it matches.
func TestSelectorMoves(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{
			ByObject: byPod(cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app": "web"})}),
		}))
		calls := s.follow(s.informer(c, &corev1.Pod{}))
		for _, tc := range []struct{ app, call string }{{"db", "delete a/1"}, {"web", "add initial=false a/1"}} {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"`+tc.app+`"}}}`))
			check.NoError(t, s.client.Patch(s.ctx, pod("a", "1"), patch))
			calls.waitFor(tc.call)
			if got, want := len(s.listed(c)), 1; (got == want) != (tc.app == "web") {
				t.Errorf("%d pods after %s", got, tc.call)
			}
		}
	})
}

func byPod(o cache.ByObject) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Pod{}: o}
}

func TestTransform(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), newWidget("a", "w", "red"))
		c := s.start(s.cache(cache.Options{
			DefaultTransform: func(in any) (any, error) {
				o := in.(client.Object)
				o.SetAnnotations(map[string]string{"default": "yes"})
				return o, nil
			},
			ByObject: byPod(cache.ByObject{Transform: func(in any) (any, error) {
				p := in.(*corev1.Pod)
				p.Spec.NodeName, p.Labels["seen"] = "", "yes"
				return p, nil
			}}),
		}))
		calls := s.follow(s.informer(c, &corev1.Pod{}))
		s.create(pod("a", "2"))
		if added := calls.waitFor("add initial=false a/2").(*corev1.Pod); added.Spec.NodeName != "" || added.Labels["seen"] != "yes" {
			t.Errorf("the handler was told %v", added)
		}
		var list corev1.PodList
		if err := c.List(s.ctx, &list); err != nil || len(list.Items) != 2 {
			t.Fatal(list.Items, err)
		}
		for _, p := range list.Items {
			if p.Spec.NodeName != "" || p.Labels["seen"] != "yes" || p.Labels["app"] != "web" || p.Annotations["default"] != "" {
				t.Errorf("%s was not transformed: %v", p.Name, p)
			}
		}
		var w widget
		if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "w"}, &w); err != nil || w.Annotations["default"] != "yes" {
			t.Errorf("the widget was not transformed: %v, %v", w, err)
		}
	})
}

// TestTransformToAnotherType checks that a transform may return another type, and that the error of
// a read then names that type.
func TestTransformToAnotherType(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{DefaultTransform: func(in any) (any, error) {
			o := in.(client.Object)
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}, nil
		}}))
		err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{})
		if want := "cache had type *v1.ConfigMap, but *v1.Pod was asked for"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// TestDisableDeepCopy checks that readers receive shared values with UnsafeDisableDeepCopy, unless
// PrivateCopies is set.
func TestDisableDeepCopy(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{ByObject: byPod(cache.ByObject{UnsafeDisableDeepCopy: new(true)})}))
		var first, second corev1.Pod
		for _, p := range []*corev1.Pod{&first, &second} {
			check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, p))
		}
		sharesMemory := &first.Spec.Containers[0] == &second.Spec.Containers[0]
		if private := s.builder.name == "private"; sharesMemory == private {
			t.Errorf("shared: %v", sharesMemory)
		}
	})
}

// TestUnknownNamespace checks that a read in a namespace that the cache does not contain fails.
func TestUnknownNamespace(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("b", "1"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		c := s.start(s.cache(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "c": {}}}))
		check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{}))
		if err := c.Get(s.ctx, client.ObjectKey{Namespace: "b", Name: "1"}, &corev1.Pod{}); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("Get in a namespace that is not cached: %v", err)
		}
		check.NoError(t, c.Get(s.ctx, client.ObjectKey{Name: "n1"}, &corev1.Node{}))
		calls := s.follow(s.informer(c, &corev1.Pod{}))
		s.create(pod("b", "2"), pod("c", "1"))
		calls.waitFor("add initial=false c/1")
	})
}

// TestShard checks that a cache with a shard option for pods contains exactly the pods of the
// shard, and all objects of other kinds.
func TestShard(t *testing.T) {
	for i := range 2 {
		s := newSetup(t, cacheBuilder{newCache: controllerruntime.NewCache(
			controllerruntime.WithObjectOptions(&corev1.Pod{}, clientgo.Options{Shard: weir.Shard{Index: i, Count: 2}}),
		)})
		for n := range 20 {
			p := pod("a", fmt.Sprint(n))
			s.create(p, newWidget("a", fmt.Sprint(n), "red"))
		}
		c := s.start(s.cache(cache.Options{}))
		live := &corev1.PodList{}
		check.NoError(t, s.client.List(s.ctx, live))
		var want []string
		for _, p := range live.Items {
			hash := fnv.New64a() // KEP-5866's hash
			_, _ = hash.Write([]byte(p.UID))
			if upper := hash.Sum64() >= 1<<63; upper == (i == 1) {
				want = append(want, p.Namespace+"/"+p.Name)
			}
		}
		slices.Sort(want)
		got := s.listed(c)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("shard %d has %v, want %v", i, got, want)
		}
		var widgets widgetList
		if err := c.List(s.ctx, &widgets); err != nil || len(widgets.Items) != 20 {
			t.Errorf("%d widgets: %v", len(widgets.Items), err)
		}
	}
}

// TestObjectOptions checks that WithObjectOptions affects only objects of the given kind in the
// given form: typed, unstructured or metadata.
func TestObjectOptions(t *testing.T) {
	s := newSetup(t, cacheBuilder{newCache: controllerruntime.NewCache(
		controllerruntime.WithOptions(clientgo.Options{PrivateCopies: true}),
		controllerruntime.WithObjectOptions(&corev1.Pod{}, clientgo.Options{}),
		controllerruntime.WithObjectOptions(untyped(widgetKind), clientgo.Options{}),
	)})
	s.create(pod("a", "1"), newWidget("a", "1", "red"))
	c := s.start(s.cache(cache.Options{DefaultUnsafeDisableDeepCopy: new(true)}))
	key := client.ObjectKey{Namespace: "a", Name: "1"}
	for _, tc := range []struct {
		name         string
		object       func() client.Object
		sharesMemory bool
	}{
		{"a pod", func() client.Object { return &corev1.Pod{} }, true},
		{"an unstructured widget", func() client.Object { return untyped(widgetKind) }, true},
		{"a typed widget", func() client.Object { return &widget{} }, false},
		{"a pod's metadata", func() client.Object { return metadataOf(podKind) }, false},
		{"an unstructured pod", func() client.Object { return untyped(podKind) }, false},
	} {
		first, second := tc.object(), tc.object()
		check.NoError(t, errors.Join(c.Get(s.ctx, key, first), c.Get(s.ctx, key, second)))
		check.Equal(t, sameLabels(first, second), tc.sharesMemory, "%s: shared", tc.name)
	}
}
