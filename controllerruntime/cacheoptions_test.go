package controllerruntime_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestDefaultFieldSelector checks that the default field selector takes effect.
func TestDefaultFieldSelector(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("a", "2", node("n2")))
		c := s.start(s.cache(cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("spec.nodeName", "n2")}))
		if got := s.listed(c); !slices.Equal(got, []string{"a/2"}) {
			t.Errorf("%v", got)
		}
	})
}

// TestReaderFailOnMissingInformer checks that a read of a kind without an informer fails, and
// creates none, if the options say so.
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
		if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{}); err != nil {
			t.Error(err)
		}
	})
}

// TestSyncPeriods checks that the sync periods of all kinds, and of one namespace, cause resyncs.
func TestSyncPeriods(t *testing.T) {
	for name, o := range map[string]cache.Options{
		"of all":         {SyncPeriod: new(time.Second)},
		"of a namespace": {DefaultNamespaces: map[string]cache.Config{"a": {SyncPeriod: new(time.Second)}}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *setup) {
				s.create(pod("a", "1"))
				c := s.start(s.cache(o))
				s.follow(s.informer(c, &corev1.Pod{})).waitFor("update a/1")
			})
		})
	}
}

// TestConfigOfANamespace checks the transform of one namespace, next to another namespace without
// deep copies.
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

// TestInformerForKind checks that GetInformerForKind returns the same informer as GetInformer, and
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
