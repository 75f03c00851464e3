package informers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestLookAt(t *testing.T) {
	podOf := func(version, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", ResourceVersion: version, Labels: map[string]string{appLabel: app},
		}}
	}
	first := podOf("1", "x")
	for _, tc := range []struct {
		name           string
		before, object any
		want           bool
	}{
		{"an object", nil, first, true},
		{"the same again", first, first, true},
		{"an equal one", podOf("1", "x"), first, true},
		{"a newer one", first, podOf("2", "y"), true},
		{"another of the same version", first, podOf("1", "y"), false},
		{"another type", nil, &unstructured.Unstructured{}, false},
		{"another type before", &unstructured.Unstructured{}, first, false},
		{"a tombstone", nil, cache.DeletedFinalStateUnknown{Obj: first}, false},
		{"what was in it", nil, finalState(cache.DeletedFinalStateUnknown{Obj: first}), true},
		{"an empty one", nil, &corev1.Pod{}, false},
	} {
		check.Equal(t, lookAt[*corev1.Pod](tc.before, tc.object), tc.want, "%s", tc.name)
	}
}

// TestTransformDropsManagedFields checks that the cached objects have no managedFields if the
// options ask for that, and have them otherwise. client-go's informer and the drop-in have a
// transform that removes managedFields. weir's own informer has an option for this.
func TestTransformDropsManagedFields(t *testing.T) {
	const n = 20
	for _, encoding := range []*encoding{podsInProtobuf, podsInJSON} {
		url, _ := startStub(t, encoding, n, n)
		for _, s := range []spec{
			{Side: sideClientgo}, {Side: sideWeir}, {Side: sideWeir, Options: Options{DropIn: true}}, {Side: sideWeir, Options: Options{DropIn: true, Unwrapped: true}},
		} {
			for _, transform := range []bool{false, true} {
				s.Transform, s.Unstructured = transform, encoding.contentType == podsInJSON.contentType
				t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
					sub := newSubject(&rest.Config{Host: url}, &s)
					sub.handleAll(sub.count)
					sub.sync(t.Context())
					defer sub.stop()
					objects := everything(t, sub)
					for _, object := range objects {
						if got := len(object.GetManagedFields()); got > 0 == transform {
							t.Fatalf("%s has %d managedFields", object.GetName(), got)
						}
					}
					check.Equal(t, len(objects), n, "objects")
				})
			}
		}
	}
}

// everything reads all objects that an informer stores.
func everything(t *testing.T, s *subject) (objects []metav1.Object) {
	t.Helper()
	take := func(object metav1.Object, err error) {
		check.NoError(t, err)
		objects = append(objects, object)
	}
	switch inf := s.informer.(type) {
	case *sharedInformer:
		for _, object := range inf.GetStore().List() {
			take(object.(metav1.Object), nil)
		}
	case *weirInformer[*corev1.Pod]:
		for object, err := range inf.All() {
			take(object, err)
		}
	case *weirInformer[*unstructured.Unstructured]:
		for object, err := range inf.All() {
			take(object, err)
		}
	}
	return objects
}

// TestNewSharedReturnsDropIn checks that the drop-in's factory returns the drop-in, and not a
// client-go informer that the factory could not replace.
func TestNewSharedReturnsDropIn(t *testing.T) {
	types := map[string]int{}
	for _, s := range []*spec{
		{Side: sideWeir}, {Side: sideWeir, Options: Options{Unwrapped: true}}, {Side: sideClientgo},
	} {
		side := s.Side
		for _, unstructured := range []bool{false, true} {
			s.DropIn, s.Unstructured = true, unstructured
			c := newShared(&rest.Config{Host: "http://127.0.0.1:1"}, s)
			if c.look == nil || (c.pods == nil) != unstructured {
				t.Errorf("%s: looks %v, lister %v", side, c.look != nil, c.pods)
			}
			types[fmt.Sprintf("%s %T", side, c.GetIndexer())]++
		}
	}
	if len(types) != 2 || types[sideWeir+" *clientgo.indexer"] != 4 {
		t.Errorf("indexers by side: %v", types)
	}
}
