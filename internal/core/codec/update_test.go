package codec

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestUpdateShared decodes a version of an object with its earlier version. The decoded value must
// be the same as without the earlier version, and the two versions must share their equal fields.
func TestUpdateShared(t *testing.T) {
	full := podsim.New(1, 1).Pod(0)
	status := full.DeepCopy()
	status.ResourceVersion, status.Status.Phase = "9", corev1.PodFailed
	spec := full.DeepCopy()
	spec.Spec.NodeName = "another"
	some := &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {1}}}
	other := &corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"c": {1}}}
	other.Name = "m"
	tests := map[string]struct {
		was, is      interface{ Marshal() ([]byte, error) }
		sharedFields []string
	}{
		"the same":         {full, full.DeepCopy(), []string{"ObjectMeta", "Spec", "Status"}},
		"the status":       {full, status, []string{"ObjectMeta.Labels", "ObjectMeta.ManagedFields", "Spec.Containers", "Spec.Tolerations", "Status.Conditions"}},
		"the spec":         {full, spec, []string{"ObjectMeta", "Spec.Volumes", "Status"}},
		"to nothing":       {full, &corev1.Pod{}, nil},
		"from nothing":     {&corev1.Pod{}, full, nil},
		"some of a map":    {some, other, []string{"BinaryData"}},
		"a map to nothing": {some, &corev1.ConfigMap{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wasRaw, isRaw := marshal(t, test.was), marshal(t, test.is)
			c := Of(test.was.(runtime.Object))
			old, err := c.Decode(wasRaw, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.Decode(isRaw, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.DecodeShared(isRaw, &Version{Raw: wasRaw, Value: old})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v\nwant\n%v", got, want)
			}
			if decoded, err := c.Decode(wasRaw, nil); err != nil || !reflect.DeepEqual(old, decoded) {
				t.Error("the old version has changed")
			}
			for _, field := range test.sharedFields {
				a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(got).Elem()
				for name := range strings.SplitSeq(field, ".") {
					a, b = a.FieldByName(name), b.FieldByName(name)
				}
				if !sharesMemory(a, b) {
					t.Errorf("%s is not shared", field)
				}
			}
		})
	}
}

func marshal(t testing.TB, object interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := object.Marshal()
	check.NoError(t, err)
	return raw
}

// sharesMemory reports whether a and b share the memory of a map or slice.
func sharesMemory(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Map, reflect.Slice:
		return a.Len() > 0 && a.Pointer() == b.Pointer()
	case reflect.Struct:
		for i := range a.NumField() {
			if sharesMemory(a.Field(i), b.Field(i)) {
				return true
			}
		}
	}
	return false
}

// TestUpdateSharedDeclines checks that decodeChanged rejects bytes that are not protobuf, are cut
// off, have fields out of order, or have unknown fields.
func TestUpdateSharedDeclines(t *testing.T) {
	c := Of(&corev1.Pod{})
	good := marshal(t, podsim.New(1, 1).Pod(0))
	for name, bad := range map[string][]byte{
		"JSON":      []byte(`{"metadata":{}}`),
		"cut off":   good[:len(good)-1],
		"unordered": append([]byte{0x12, 0}, good...),
		"unknown":   append(good[:len(good):len(good)], 0x7a, 0),
	} {
		if _, ok := c.decodeChanged(bad, &Version{Raw: good, Value: &corev1.Pod{}}, true); ok {
			t.Errorf("%s was decoded", name)
		}
	}
	if _, ok := Of(&unstructured.Unstructured{}).decodeChanged(nil, &Version{}, true); ok {
		t.Error("a type without protobuf was decoded")
	}
	if _, ok := New(reflect.TypeFor[*custom]()).decodeChanged([]byte("x"), &Version{Raw: []byte("x"), Value: &custom{}}, true); ok {
		t.Error("a custom type was decoded")
	}
}

func FuzzUpdateShared(f *testing.F) {
	pod := podsim.New(1, 1).Pod(0)
	one := marshal(f, pod)
	pod.Status.Phase = corev1.PodFailed
	f.Add(one, marshal(f, pod))
	f.Add(one, []byte{})
	c := Of(&corev1.Pod{})
	pod.APIVersion, pod.Kind = "v1", "Pod"
	stating, _ := c.Encode(pod)
	f.Add(one, stating)
	f.Add(stating, one)
	f.Add(stating, stating)
	f.Fuzz(func(t *testing.T, was, is []byte) {
		old, err := c.Decode(was, nil)
		if err != nil {
			return
		}
		got, ok := c.decodeChanged(is, &Version{Raw: was, Value: old}, true)
		if !ok {
			return
		}
		want, err := c.Decode(is, nil)
		if err != nil {
			t.Fatalf("decoded what cannot be decoded: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
