package bench

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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
		if got := lookAt[*corev1.Pod](tc.before, tc.object); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// The drop-in must be what is measured, not client-go's informer that the factory could not take over.
func TestNewSharedTakesTheSide(t *testing.T) {
	types := map[string]int{}
	for _, side := range []string{sideWeir, sideClientgo} {
		for _, unstructured := range []bool{false, true} {
			s := &spec{Side: side, DropIn: true, Unstructured: unstructured}
			c, err := newShared(&rest.Config{Host: "http://127.0.0.1:1"}, s)
			if err != nil {
				t.Fatal(err)
			}
			if c.look == nil || (c.pods == nil) != unstructured {
				t.Errorf("%s: looks %v, lister %v", side, c.look != nil, c.pods)
			}
			types[fmt.Sprintf("%s %T", side, c.GetIndexer())]++
		}
	}
	if len(types) != 2 || types[sideWeir+" *clientgo.indexer"] != 2 {
		t.Errorf("indexers by side: %v", types)
	}
}
