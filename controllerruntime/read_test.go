package controllerruntime_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/internal/testing/check"
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

func TestGet(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "p"), newWidget("a", "w", "red"))
		c := s.start(s.cache(cache.Options{}))
		key := client.ObjectKey{Namespace: "a", Name: "p"}
		var typed corev1.Pod
		loose, meta := untyped(podKind), metadataOf(podKind)
		for _, o := range []client.Object{&typed, loose, meta} {
			if err := c.Get(s.ctx, key, o); err != nil {
				t.Fatalf("%T: %v", o, err)
			}
			check.Equal(t, o.GetObjectKind().GroupVersionKind(), podKind, "%T says it is a", o)
			if o.GetLabels()["app"] != "web" || o.GetUID() == "" || o.GetResourceVersion() == "" {
				t.Errorf("%T has lost its metadata: %v", o, o)
			}
		}
		if typed.Spec.NodeName != "n1" {
			t.Errorf("typed: %v", typed)
		}
		if got, _, _ := unstructured.NestedString(loose.Object, "spec", "nodeName"); got != "n1" {
			t.Errorf("unstructured: %v", loose)
		}
		var w widget
		if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "w"}, &w); err != nil || w.Spec.Color != "red" {
			t.Errorf("widget %v, %v", w, err)
		}
		check.Equal(t, w.GroupVersionKind(), widgetKind, "a widget says it is a")
		for _, o := range []client.Object{&corev1.Pod{}, untyped(podKind), metadataOf(podKind), untyped(widgetKind)} {
			if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "none"}, o); !apierrors.IsNotFound(err) {
				t.Errorf("Get of nothing: %v", err)
			}
		}
	})
}

// TestCopies checks that a change that a reader makes to an object does not appear in later reads.
func TestCopies(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "p"))
		c := s.start(s.cache(cache.Options{}))
		key := client.ObjectKey{Namespace: "a", Name: "p"}
		for _, newObject := range []func() client.Object{
			func() client.Object { return &corev1.Pod{} },
			func() client.Object { return untyped(podKind) },
			func() client.Object { return metadataOf(podKind) },
		} {
			first, second := newObject(), newObject()
			check.NoError(t, c.Get(s.ctx, key, first))
			first.SetLabels(map[string]string{"changed": "yes"})
			first.GetAnnotations()
			check.NoError(t, c.Get(s.ctx, key, second))
			if second.GetLabels()["app"] != "web" {
				t.Errorf("%T: what a reader changed shows to the next: %v", second, second.GetLabels())
			}
		}
		var list corev1.PodList
		check.NoError(t, c.List(s.ctx, &list))
		list.Items[0].Labels["app"] = "changed"
		list.Items[0].Spec.Containers[0].Image = "changed"
		var copied corev1.PodList
		check.NoError(t, c.List(s.ctx, &copied))
		if got := copied.Items[0]; got.Labels["app"] != "web" || got.Spec.Containers[0].Image != "i" {
			t.Errorf("what a reader changed shows to the next: %v", got)
		}
	})
}

func TestList(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("a", "2", label("app", "db")), pod("ab", "1"), pod("b", "1"))
		c := s.start(s.cache(cache.Options{}))
		for _, tc := range []struct {
			name string
			opts []client.ListOption
			want []string
		}{
			{"everything", nil, []string{"a/1", "a/2", "ab/1", "b/1"}},
			{"a namespace", []client.ListOption{client.InNamespace("a")}, []string{"a/1", "a/2"}},
			{"no such namespace", []client.ListOption{client.InNamespace("c")}, []string{}},
			{"a label", []client.ListOption{client.MatchingLabels{"app": "web"}}, []string{"a/1", "ab/1", "b/1"}},
			{"a label in a namespace", []client.ListOption{client.InNamespace("a"), client.MatchingLabels{"app": "web"}}, []string{"a/1"}},
			{"shared", []client.ListOption{client.UnsafeDisableDeepCopy, client.InNamespace("b")}, []string{"b/1"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				var typed corev1.PodList
				loose, meta := untypedList(podKind), metadataListOf(podKind)
				for _, l := range []client.ObjectList{&typed, loose, meta} {
					if err := c.List(s.ctx, l, tc.opts...); err != nil {
						t.Fatalf("%T: %v", l, err)
					}
				}
				for of, got := range map[string][]string{
					"typed":        names(pointers(typed.Items)),
					"unstructured": names(pointers(loose.Items)),
					"metadata":     names(pointers(meta.Items)),
				} {
					if slices.Sort(got); !slices.Equal(got, tc.want) {
						t.Errorf("%s: %v, want %v", of, got, tc.want)
					}
				}
				for i := range loose.Items {
					if loose.Items[i].GroupVersionKind() != podKind || meta.Items[i].GroupVersionKind() != podKind {
						t.Errorf("kinds: %v, %v", loose.Items[i].GroupVersionKind(), meta.Items[i].GroupVersionKind())
					}
				}
			})
		}
		var limited corev1.PodList
		if err := c.List(s.ctx, &limited, client.Limit(3)); err != nil || len(limited.Items) != 3 {
			t.Errorf("a limit of 3 gives %d, %v", len(limited.Items), err)
		}
	})
}

// TestOtherKinds checks the results of reads of a cluster-scoped kind, and of a custom resource as
// typed, unstructured and metadata objects.
func TestOtherKinds(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, newWidget("a", "w", "red"), newWidget("b", "w", "blue"))
		c := s.start(s.cache(cache.Options{}))
		var n corev1.Node
		if err := c.Get(s.ctx, client.ObjectKey{Name: "n1"}, &n); err != nil || n.Name != "n1" {
			t.Errorf("node %q: %v", n.Name, err)
		}
		var typed widgetList
		loose, meta := untypedList(widgetKind), metadataListOf(widgetKind)
		for _, l := range []client.ObjectList{&typed, loose, meta} {
			check.NoError(t, c.List(s.ctx, l, client.InNamespace("b")))
		}
		if len(typed.Items) != 1 || len(loose.Items) != 1 || len(meta.Items) != 1 {
			t.Fatalf("%v, %v, %v", typed.Items, loose.Items, meta.Items)
		}
		color, _, _ := unstructured.NestedString(loose.Items[0].Object, "spec", "color")
		if typed.Items[0].Spec.Color != "blue" || color != "blue" || meta.Items[0].Labels["color"] != "blue" {
			t.Errorf("%v, %v, %v", typed.Items[0], loose.Items[0], meta.Items[0])
		}
	})
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
