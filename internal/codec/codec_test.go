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
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/wire"
)

// TestMarshal: objects with a protobuf form have it, and lose their kind; others are JSON.
func TestMarshal(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "size": 3.0}}
	for _, object := range []runtime.Object{pod, thing} {
		raw, err := Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := Of(object).Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		pod.TypeMeta, thing.Object["size"] = metav1.TypeMeta{}, int64(3)
		if isProtobuf(raw) != (object == pod) || !equality.Semantic.DeepEqual(decoded, object) {
			t.Errorf("%T: %q is %v", object, raw, decoded)
		}
	}
}

// TestMarshalAs: an encoding is what was asked for, or the type does not have it; OfStruct decodes
// either.
func TestMarshalAs(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, enc := range []wire.Encoding{wire.Protobuf, wire.JSON} {
		raw, err := MarshalAs(enc, pod)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := OfStruct(reflect.TypeFor[corev1.Pod]()).Decode(raw)
		if err != nil || isProtobuf(raw) != (enc == wire.Protobuf) || !equality.Semantic.DeepEqual(decoded, pod) {
			t.Errorf("%v: %q is %v, %v", enc, raw, decoded, err)
		}
	}
	thing := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing"}}
	if _, err := MarshalAs(wire.Protobuf, thing); !errors.Is(err, ErrNotProtobuf) {
		t.Errorf("an unstructured object as protobuf: %v", err)
	}
	raw, err := MarshalAs(wire.JSON, thing)
	if err != nil {
		t.Fatal(err)
	}
	if decoded, err := OfStruct(nil).Decode(raw); err != nil || !equality.Semantic.DeepEqual(decoded, thing) {
		t.Errorf("%s is %v, %v", raw, decoded, err)
	}
}

// TestRoundTripsJSON compares roundTripsJSON with what encoding and decoding an unstructured object
// returns.
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
		if got := roundTripsJSON(u); got != test.keeps {
			t.Errorf("%s: keepsJSON is %t", name, got)
		}
		if raw, err := marshalJSON(u); test.keeps && (err != nil || !c.decodesTo(raw, u)) {
			t.Errorf("%s is not kept: %s, %v", name, raw, err)
		}
		kindless := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		if delete(kindless.Object, "kind"); roundTripsJSON(kindless) {
			t.Errorf("%s: keepsJSON without a kind", name)
		}
	}
}
