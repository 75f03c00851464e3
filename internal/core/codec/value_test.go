package codec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/wire"
)

// unimplemented is an object whose methods panic.
type unimplemented struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (*unimplemented) MarshalJSON() ([]byte, error)   { panic("not implemented") }
func (*unimplemented) UnmarshalJSON([]byte) error     { panic("not implemented") }
func (*unimplemented) DeepCopyObject() runtime.Object { panic("not implemented") }
func (*unimplemented) SetResourceVersion(string)      { panic("not implemented") }

// uncopied is an object whose DeepCopyObject returns a nil pointer.
type uncopied struct{ metav1.TypeMeta }

func (*uncopied) DeepCopyObject() runtime.Object { return (*uncopied)(nil) }

// TestUnimplemented checks that this package recovers from panics in an object's methods.
func TestUnimplemented(t *testing.T) {
	object := &unimplemented{}
	c := New(reflect.TypeOf(object))
	if raw, ok := c.Encode(object); ok {
		t.Errorf("encoded as %q", raw)
	}
	if value, err := c.Decode([]byte(`{}`), nil); err == nil || value != nil {
		t.Errorf("decoded as %v, %v", value, err)
	}
	if SetResourceVersion(object, "1") || SetIdentity(object, wire.Identity{}) || SetResourceVersion("text", "1") {
		t.Error("a resourceVersion was set")
	}
}

// TestCopy checks which values can be copied.
func TestCopy(t *testing.T) {
	for _, value := range []any{&unimplemented{}, &uncopied{}, (*uncopied)(nil), "text", nil} {
		if duplicate, ok := Copy(value); ok || duplicate != nil {
			t.Errorf("%T: copied as %v", value, duplicate)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if duplicate, ok := Copy(pod); !ok || duplicate == any(pod) || duplicate.(*corev1.Pod).Name != "a" {
		t.Errorf("copied as %v", duplicate)
	}
}
