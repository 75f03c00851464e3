package wire

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// namedOnly is metadata that has a name, and panics at what else it is asked for.
type namedOnly struct {
	metav1.Object
	name string
}

func (n namedOnly) GetName() string            { return n.name }
func (n namedOnly) GetNamespace() string       { return "d" }
func (n namedOnly) GetResourceVersion() string { return "7" }

// TestIdentityOf checks what is read of Go values, and that one without metadata is an error.
func TestIdentityOf(t *testing.T) {
	annotated := metav1.ObjectMeta{
		Namespace: "d", Name: "a", UID: types.UID("u"), ResourceVersion: "7", Annotations: map[string]string{initialEventsEnd: "true"},
	}
	for _, test := range []struct {
		value any
		want  Identity
		err   string
	}{
		{&corev1.Pod{ObjectMeta: annotated}, Identity{"d", "a", "u", "7"}, ""},
		{namedOnly{name: "a"}, Identity{"d", "a", "", "7"}, ""},
		{(*corev1.Pod)(nil), Identity{}, "nil *v1.Pod"},
		{nil, Identity{}, "no metadata"},
		{&corev1.PodList{}, Identity{}, "no metadata"},
		{struct{ metav1.Object }{}, Identity{}, "panic"},
	} {
		id, err := IdentityOf(test.value)
		if id != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%T: %+v, %v, want %+v, %q", test.value, id, err, test.want, test.err)
		}
		var m Meta
		if got := ReadMetaOf(test.value, &m); (got == nil) != (err == nil) {
			t.Errorf("%T: %v", test.value, got)
		}
		if string(m.Name) != test.want.Name || m.InitialEventsEnd() {
			t.Errorf("%T: metadata of %q", test.value, m.Name)
		}
	}
	var m Meta
	if err := ReadBookmarkOf(&corev1.Pod{ObjectMeta: annotated}, &m); err != nil || !m.InitialEventsEnd() {
		t.Errorf("bookmark: %v, %v", err, m.InitialEventsEnd())
	}
	if err := ReadBookmarkOf(namedOnly{name: "a"}, &m); err == nil {
		t.Error("annotations were read")
	}
}
