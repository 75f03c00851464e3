package codec

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
)

type (
	sized    struct{ size int32 }
	listed   struct{ sizes []sized }
	hidden   struct{ at metav1.Time }
	marked   struct{ _ struct{} }
	inner    struct{ A string }
	list     []string
	promotes struct {
		inner
		*marked
	}
	elements struct{ list }
	recurs   struct {
		Next *recurs
		size int32
	}
	holder struct{ Any any }
	object struct {
		metav1.TypeMeta
		metav1.ObjectMeta
		Spec sized
	}
)

// TestEqual compares Equal with equality.Semantic, and checks that Equal returns false if
// equality.Semantic panics.
func TestEqual(t *testing.T) {
	for name, test := range map[string]struct {
		a, b    any
		compare bool // equality.Semantic can compare them
	}{
		"pod":              {&corev1.Pod{}, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{}}}, true},
		"other pod":        {&corev1.Pod{}, &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, true},
		"deployment":       {&appsv1.Deployment{}, &appsv1.Deployment{}, true},
		"history":          {&appsv1.ControllerRevision{}, &appsv1.ControllerRevision{Data: runtime.RawExtension{Object: &corev1.Pod{}}}, true},
		"metadata":         {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}, true},
		"unstructured":     {&unstructured.Unstructured{Object: map[string]any{"a": "b"}}, &unstructured.Unstructured{Object: map[string]any{"a": "b"}}, true},
		"quantity":         {resource.MustParse("1"), resource.MustParse("1000m"), true},
		"nothing":          {nil, nil, true},
		"types differ":     {&corev1.Pod{}, &corev1.Secret{}, true},
		"promoted fields":  {promotes{inner{"a"}, nil}, promotes{inner{"a"}, nil}, true},
		"empty field":      {marked{}, marked{}, true},
		"unexported":       {&object{Spec: sized{7}}, &object{Spec: sized{7}}, false},
		"unexported time":  {hidden{metav1.Time{}}, hidden{metav1.Time{}}, false},
		"unexported lists": {listed{[]sized{{1}}}, listed{[]sized{{1}}}, false},
		"unexported list":  {elements{list{"a"}}, elements{list{"a"}}, false},
		"raw time":         {&time.Time{}, &time.Time{}, false},
		"inside itself":    {recurs{Next: &recurs{size: 1}}, recurs{Next: &recurs{size: 1}}, false},
		"held":             {holder{sized{1}}, holder{sized{1}}, false},
		"held types":       {holder{sized{1}}, holder{"a"}, true},
		"no selector":      {&struct{ S labels.Selector }{}, &struct{ S labels.Selector }{}, false},
	} {
		want, panicked := semantic(test.a, test.b)
		if panicked == test.compare {
			t.Errorf("%s: the semantic comparison panics: %t", name, panicked)
		}
		check.Equal(t, Equal(test.a, test.b), want, "%s: equal", name)
	}
}

// semantic compares a and b with equality.Semantic. panicked reports whether the comparison
// panicked.
func semantic(a, b any) (equal, panicked bool) {
	defer func() {
		if recover() != nil {
			equal, panicked = false, true
		}
	}()
	return equality.Semantic.DeepEqual(a, b), false
}
