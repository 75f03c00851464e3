package codec

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestMarshal checks that Marshal uses the requested encoding, and returns an error if the type
// does not support it. A codec must decode both encodings. Objects of built-in types lose their
// kind.
func TestMarshal(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		raw, err := Marshal(enc, pod)
		check.NoError(t, err)
		want := pod.DeepCopy()
		want.TypeMeta = metav1.TypeMeta{}
		for _, c := range []*Codec{OfStruct(reflect.TypeFor[corev1.Pod]()), Of(pod)} {
			decoded, err := c.Decode(raw, nil)
			if err != nil || isProtobuf(raw) != (enc == wire.Protobuf) || !equality.Semantic.DeepEqual(decoded, want) {
				t.Errorf("%v: %q is %v, %v", enc, raw, decoded, err)
			}
		}
	}
	thing := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing"}}
	if _, err := Marshal(wire.Protobuf, thing); !errors.Is(err, ErrNotProtobuf) {
		t.Errorf("an unstructured object as protobuf: %v", err)
	}
	raw, err := Marshal(wire.JSON, thing)
	check.NoError(t, err)
	if decoded, err := OfStruct(nil).Decode(raw, nil); err != nil || !equality.Semantic.DeepEqual(decoded, thing) {
		t.Errorf("%s is %v, %v", raw, decoded, err)
	}
}

// TestRoundTripsJSON checks that roundTripsJSON returns true only for objects that are equal after
// encoding and decoding.
func TestRoundTripsJSON(t *testing.T) {
	c := Of(&unstructured.Unstructured{})
	deep := any("end")
	for range 2 * maxPlainDepth {
		deep = []any{deep}
	}
	for name, test := range map[string]struct {
		value any
		keeps bool
	}{
		"text":            {"a <b> \u2028 ü", true},
		"numbers":         {[]any{int64(math.MaxInt64), int64(-1), 0.5, -1e-300}, true},
		"nothing":         {nil, true},
		"empty":           {[]any{map[string]any{}, []any{}}, true},
		"no text":         {"\xff", false},
		"a whole float":   {3.0, false},
		"a large float":   {1e21, false},
		"an int":          {3, false},
		"no map":          {map[string]any(nil), false},
		"no list":         {[]any(nil), false},
		"strings":         {[]string{"a"}, false},
		"text in keys":    {map[string]any{"\xff": true}, false},
		"not a number":    {math.NaN(), false},
		"more than plain": {deep, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "spec": test.value}}
		check.Equal(t, roundTripsJSON(u), test.keeps, "%s: keepsJSON", name)
		if raw, err := marshalJSON(u); test.keeps && (err != nil || !c.decodesTo(raw, u)) {
			t.Errorf("%s is not kept: %s, %v", name, raw, err)
		}
		kindless := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		if delete(kindless.Object, "kind"); roundTripsJSON(kindless) {
			t.Errorf("%s: keepsJSON without a kind", name)
		}
	}
}

// sparse is a type whose Marshal panics at a nil element, as generated code does.
type sparse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Items []*metav1.Status `json:"items"`
}

func (s *sparse) Reset()                 { *s = sparse{} }
func (s *sparse) Unmarshal([]byte) error { return errors.New("it has no room for what is stated") }
func (s *sparse) Marshal() (raw []byte, err error) {
	for _, i := range s.Items {
		raw = append(raw, i.Message...)
	}
	return raw, nil
}

// TestMarshalPanics checks that a value is encoded as JSON, or rejected, if its type's Marshal
// panics.
func TestMarshalPanics(t *testing.T) {
	thing := &sparse{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Thing"}, Items: []*metav1.Status{nil}}
	c := New(reflect.TypeOf(thing))
	raw, ok := c.Encode(thing)
	if !ok || isProtobuf(raw) {
		t.Fatalf("encoded as %q, %v, want JSON", raw, ok)
	}
	if decoded, err := c.Decode(raw, nil); err != nil || !equality.Semantic.DeepEqual(decoded, thing) {
		t.Errorf("%s is %v, %v", raw, decoded, err)
	}
	if raw, err := Marshal(wire.Protobuf, thing); err == nil || raw != nil {
		t.Errorf("as protobuf: %q, %v", raw, err)
	}
}
