package controllerruntime_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/internal/testing/check"
)

func byNode(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }

func byApp(o client.Object) []string {
	if app := o.GetLabels()["app"]; app != "" {
		return []string{app}
	}
	return nil
}

// listed returns the keys of the pods that a List returns, sorted.
func (s *setup) listed(c client.Reader, opts ...client.ListOption) []string {
	s.t.Helper()
	var list corev1.PodList
	check.NoError(s.t, c.List(s.ctx, &list, opts...))
	got := names(pointers(list.Items))
	slices.Sort(got)
	return got
}

// TestIndexField checks the results of two indexes. One is added before the cache starts, and the
// other while the informer runs.
func TestIndexField(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("a", "2", node("n2")), pod("b", "1", label("app", "db")), pod("b", "2", node("n2"), label("app", "")))
		c := s.cache(cache.Options{})
		check.NoError(t, c.IndexField(s.ctx, &corev1.Pod{}, "spec.nodeName", byNode))
		s.start(c)
		calls := s.follow(s.informer(c, &corev1.Pod{}))
		check.NoError(t, c.IndexField(s.ctx, &corev1.Pod{}, "app", byApp))
		if err := c.IndexField(s.ctx, &corev1.Pod{}, "app", byApp); err == nil {
			t.Error("the same index twice is no error")
		}
		both := client.MatchingFields{"spec.nodeName": "n1", "app": "web"}
		holds := func(when string, want map[string][]string) {
			t.Helper()
			for what, got := range map[string][]string{
				"n1":         s.listed(c, client.MatchingFields{"spec.nodeName": "n1"}),
				"n1 in b":    s.listed(c, client.MatchingFields{"spec.nodeName": "n1"}, client.InNamespace("b")),
				"n2":         s.listed(c, client.MatchingFields{"spec.nodeName": "n2"}),
				"n3":         s.listed(c, client.MatchingFields{"spec.nodeName": "n3"}),
				"web":        s.listed(c, client.MatchingFields{"app": "web"}),
				"db in b":    s.listed(c, client.MatchingFields{"app": "db"}, client.InNamespace("b")),
				"n1 and web": s.listed(c, both),
				"n2 label":   s.listed(c, client.MatchingFields{"spec.nodeName": "n2"}, client.MatchingLabels{"app": "web"}),
			} {
				if !slices.Equal(got, want[what]) && len(got)+len(want[what]) > 0 {
					t.Errorf("%s: %s: %v, want %v", when, what, got, want[what])
				}
			}
		}
		holds("at first", map[string][]string{
			"n1": {"a/1", "b/1"}, "n1 in b": {"b/1"}, "n2": {"a/2", "b/2"}, "web": {"a/1", "a/2"}, "db in b": {"b/1"},
			"n1 and web": {"a/1"}, "n2 label": {"a/2"},
		})
		var moved corev1.Pod
		check.NoError(t, s.client.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &moved))
		moved.Spec.NodeName, moved.Labels["app"] = "n3", "db"
		check.NoError(t, s.client.Update(s.ctx, &moved))
		calls.waitFor("update a/1")
		check.NoError(t, s.client.Delete(s.ctx, pod("a", "2")))
		calls.waitFor("delete a/2")
		s.create(pod("b", "3"))
		calls.waitFor("add initial=false b/3")
		holds("after changes", map[string][]string{
			"n1": {"b/1", "b/3"}, "n1 in b": {"b/1", "b/3"}, "n2": {"b/2"}, "n3": {"a/1"}, "web": {"b/3"}, "db in b": {"b/1"},
			"n1 and web": {"b/3"},
		})
		if err := c.List(s.ctx, &corev1.PodList{}, client.MatchingFields{"none": "x"}); err == nil {
			t.Error("a list by an index that there is not is no error")
		}
	})
}

// TestIndexOtherForms checks the results of indexes of unstructured objects, of metadata and of a
// cluster-scoped kind, and of an index function that returns several values.
func TestIndexOtherForms(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(newWidget("a", "1", "red"), newWidget("b", "1", "blue"), newWidget("b", "2", "red"))
		s.create(&corev1.Namespace{ObjectMeta: pod("", "x", label("team", "t1")).ObjectMeta})
		c := s.cache(cache.Options{})
		loose, meta := untyped(widgetKind), metadataOf(widgetKind)
		if err := c.IndexField(s.ctx, loose, "spec.color", func(o client.Object) []string {
			color, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "color")
			return []string{color, "any"}
		}); err != nil {
			t.Fatal(err)
		}
		check.NoError(t, c.IndexField(s.ctx, meta, "color", func(o client.Object) []string { return []string{o.GetLabels()["color"]} }))
		check.NoError(t, c.IndexField(s.ctx, &corev1.Namespace{}, "team", func(o client.Object) []string { return []string{o.GetLabels()["team"]} }))
		s.start(c)
		for _, tc := range []struct {
			opts []client.ListOption
			want []string
		}{
			{[]client.ListOption{client.MatchingFields{"spec.color": "red"}}, []string{"a/1", "b/2"}},
			{[]client.ListOption{client.MatchingFields{"spec.color": "red"}, client.InNamespace("b")}, []string{"b/2"}},
			{[]client.ListOption{client.MatchingFields{"spec.color": "any"}}, []string{"a/1", "b/1", "b/2"}},
		} {
			list := untypedList(widgetKind)
			check.NoError(t, c.List(s.ctx, list, tc.opts...))
			got := names(pointers(list.Items))
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("%v: %v, want %v", tc.opts, got, tc.want)
			}
		}
		metas := metadataListOf(widgetKind)
		if err := c.List(s.ctx, metas, client.MatchingFields{"color": "blue"}); err != nil || len(metas.Items) != 1 {
			t.Errorf("metadata: %v, %v", metas.Items, err)
		}
		var spaces corev1.NamespaceList
		if err := c.List(s.ctx, &spaces, client.MatchingFields{"team": "t1"}); err != nil || len(spaces.Items) != 1 {
			t.Errorf("namespaces: %v, %v", spaces.Items, err)
		}
	})
}
