package clientgo

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ring is a value that refers to itself.
type ring struct {
	Next *ring
	All  []any
}

// TestValueSize checks that the estimate is close to a value's actual size for all containers, that
// it does not follow private fields, and that it ends.
func TestValueSize(t *testing.T) {
	const size, most = 100 << 10, 1 << 20
	text := strings.Repeat("x", size)
	self := &ring{}
	self.Next, self.All = self, []any{self, self}
	for name, test := range map[string]struct {
		value any
		want  int // within a tenth, and 2,000 bytes; 0: more than most
	}{
		"nothing":      {nil, 0 + 1},
		"text":         {&corev1.Pod{Spec: corev1.PodSpec{NodeName: text}}, size},
		"a map":        {&corev1.ConfigMap{Data: map[string]string{"a": text, "b": text}}, 2 * size},
		"bytes":        {&corev1.Secret{Data: map[string][]byte{text: []byte(text)}}, 2 * size},
		"items":        {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: text}, {Args: []string{text, "", text}}}}}, 3 * size},
		"a pointer":    {&metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(text)}}}, size},
		"numbers":      {&struct{ A []int64 }{make([]int64, size/8)}, size},
		"unstructured": {&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": []any{text, map[string]any{"b": text}}}}}, 2 * size},
		"private":      {&struct{ a string }{text}, 1},
		"too much":     {&corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat(text, 11)}}, 0},
		"a ring":       {self, 0},
	} {
		got := valueSize(test.value, most)
		if want := test.want; want == 0 && got <= most || want > 0 && (got < want-1 || got > want+want/10+2000) {
			t.Errorf("%s: %d bytes, want about %d", name, got, want)
		}
	}
}
