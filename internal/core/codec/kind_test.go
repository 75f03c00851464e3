package codec

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestKindOfEveryType encodes a value of each built-in type that states its kind. It checks that
// the value is encoded as protobuf and decoded unchanged, and that other protobuf readers can read
// the bytes.
func TestKindOfEveryType(t *testing.T) {
	stated := metav1.TypeMeta{APIVersion: "some/v1", Kind: "Thing"}
	eachRandom(t, 3, func(typ reflect.Type, _ protoMessage, raw []byte) {
		c := New(typ)
		value, err := c.Decode(raw, nil) // as a server sends it
		check.NoError(t, err)
		bare, err := value.(protoMessage).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := value.(*metav1.WatchEvent); ok {
			return // it has no TypeMeta
		}
		typeMeta := c.protobuf.typeMetaOf(value)
		if typeMeta == nil {
			t.Fatalf("%T has no TypeMeta", value)
		}
		*typeMeta = stated
		raw, ok := c.Encode(value)
		if !ok || !isProtobuf(raw) {
			t.Fatalf("%T with a kind is encoded as %.40q, %t", value, raw, ok)
		}
		if decoded, err := c.Decode(raw, nil); err != nil || !equality.Semantic.DeepEqual(decoded, value) {
			t.Errorf("%T: decoded %v, %v, want %v", value, decoded, err, value)
		}
		unmarshaled := c.New().(protoMessage)
		if err := unmarshaled.Unmarshal(raw); err != nil {
			t.Errorf("%T: its own Unmarshal: %v", value, err)
		}
		var without, with wire.Meta
		errWithout, err := wire.ReadMeta(wire.Protobuf, bare, &without), wire.ReadMeta(wire.Protobuf, raw, &with)
		if (errWithout == nil) != (err == nil) || err == nil && !reflect.DeepEqual(without, with) {
			t.Errorf("%T: metadata %+v, %v, want %+v, %v", value, with, err, without, errWithout)
		}
		*typeMeta = metav1.TypeMeta{}
		if raw, ok := c.Encode(value); !ok || string(raw) != string(bare) {
			t.Errorf("%T without a kind is encoded as %.40q, %t", value, raw, ok)
		}
	})
}

// TestNoTypeHasTheKindsField checks that no message of a built-in type has a field whose number is
// near kindField.
func TestNoTypeHasTheKindsField(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Map, reflect.Pointer, reflect.Slice:
			walk(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				if number, _ := wire.FieldNumber(of.Field(i)); number >= kindField/10 {
					t.Errorf("%s.%s has number %d", of, of.Field(i).Name, number)
				}
				walk(of.Field(i).Type)
			}
		}
	}
	for _, of := range scheme.Scheme.AllKnownTypes() {
		walk(of)
	}
}

// statedKinds contains kinds that values may state, including odd ones.
var statedKinds = map[string]metav1.TypeMeta{
	"usual":           {APIVersion: "v1", Kind: "Pod"},
	"none":            {},
	"only a kind":     {Kind: "Pod"},
	"only a version":  {APIVersion: "v1"},
	"too many groups": {APIVersion: "a/b/c", Kind: "Pod"},
	"slashes":         {APIVersion: "/", Kind: "a/b"},
	"no text":         {APIVersion: "\xff\x00", Kind: "\xc3\x28"},
	"long":            {APIVersion: strings.Repeat("v", 200), Kind: strings.Repeat("k", 20_000)},
	"braces":          {APIVersion: "{", Kind: `{"kind":"Pod"}`},
}

// TestStatedKinds checks that a decoded value has exactly the kind that was encoded. It tests each
// way to decode, each kind that a codec sets, and each pair of kinds in consecutive values.
func TestStatedKinds(t *testing.T) {
	codecs := map[string]*Codec{
		"typed":           Of(&corev1.Pod{}),
		"metadata":        Of(&metav1.PartialObjectMetadata{}),
		"metadata, given": Of(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}),
	}
	for codecName, c := range codecs {
		encoded := func(name string) []byte {
			value := c.New()
			*c.protobuf.typeMetaOf(value) = statedKinds[name]
			value.(metav1.Object).SetName("a")
			value.(metav1.Object).SetLabels(map[string]string{"a": "b"})
			raw, ok := c.Encode(value)
			if !ok || !isProtobuf(raw) {
				t.Fatalf("%s: %s is encoded as %.40q, %t", codecName, name, raw, ok)
			}
			return raw
		}
		check := func(name, how string, value any, err error) {
			if err != nil || *c.protobuf.typeMetaOf(value) != statedKinds[name] || value.(metav1.Object).GetName() != "a" {
				t.Errorf("%s: %s is %s as %v, %v", codecName, name, how, value, err)
			}
		}
		for before := range statedKinds {
			for name := range statedKinds {
				was, is := encoded(before), encoded(name)
				value, err := c.Decode(is, nil)
				check(name, "decoded", value, err)
				value, err = c.DecodeShared(is, nil)
				check(name, "decoded to share", value, err)
				old, fresh, err := c.versions(was, is)
				check(before, "decoded as the old one", old, err)
				check(name, "decoded as the new one", fresh, err)
				fresh, err = c.DecodeShared(is, &Version{Raw: was, Value: old})
				check(name, "decoded to share with the old one", fresh, err)
				check(before, "changed by the new one", old, nil)
				if !sharesMemory(reflect.ValueOf(old).Elem().FieldByName("ObjectMeta"), reflect.ValueOf(fresh).Elem().FieldByName("ObjectMeta")) {
					t.Errorf("%s: %s after %s shares nothing", codecName, name, before)
				}
			}
		}
	}
}

// TestKindGiven checks that Encode writes no kind field for a value whose kind the codec sets when
// it decodes.
func TestKindGiven(t *testing.T) {
	value := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	want, err := value.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if raw, ok := Of(value).Encode(value); !ok || string(raw) != string(want) {
		t.Errorf("encoded %q, %t, want %q", raw, ok, want)
	}
}

// TestForeignKindField checks that a malformed field with the number kindField is skipped like any
// unknown field. It may cause an error only if it also causes one in the type's own Unmarshal.
func TestForeignKindField(t *testing.T) {
	message, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	field := func(content string) []byte { return protowire.AppendString([]byte(kindTag), content) }
	c := Of(&corev1.Pod{})
	for name, front := range map[string][]byte{
		"text":              field("Pod"),
		"beyond its end":    field("\x0a\x02v1\x12\x7fPod"),
		"beyond the object": append([]byte(kindTag), 0xff, 0x7f),
		"no length":         append([]byte(kindTag), 0xff),
		"a number":          protowire.AppendVarint(protowire.AppendTag(nil, kindField, protowire.VarintType), 7),
	} {
		raw := append(front, message...)
		want := &corev1.Pod{}
		wantErr := want.Unmarshal(raw)
		got, err := c.Decode(raw, nil)
		if (err == nil) != (wantErr == nil) || err == nil && !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: decoded %v, %v, want %v, %v", name, got, err, want, wantErr)
		}
	}
	if value, err := c.Decode([]byte(kindTag), nil); err == nil {
		t.Errorf("a tag alone is %v", value)
	}
}

// TestKindsAreShared checks that all decoded objects share the strings of a kind. A stated kind
// must cost one additional allocation when it is encoded, and none when it is decoded.
func TestKindsAreShared(t *testing.T) {
	c := Of(&corev1.Pod{})
	bare, stating := podsim.New(1, 1).Pod(0), podsim.New(1, 1).Pod(0)
	stating.APIVersion, stating.Kind = "v1", "Pod"
	raw, ok := c.Encode(stating)
	if !ok {
		t.Fatal("not encoded")
	}
	reader := Of(&corev1.Pod{}) // has encoded nothing
	decoded := func() *corev1.Pod {
		value, err := reader.Decode(raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		return value.(*corev1.Pod)
	}
	a, b := decoded(), decoded()
	if !views.Same(a.Kind, b.Kind) || !views.Same(a.APIVersion, b.APIVersion) {
		t.Error("two objects have strings of their own")
	}
	encode := func(p *corev1.Pod) func() { return func() { c.Encode(p) } }
	if without, with := testing.AllocsPerRun(100, encode(bare)), testing.AllocsPerRun(100, encode(stating)); with > without+1 {
		t.Errorf("encoding takes %v allocations with a kind, %v without", with, without)
	}
	read := func() {
		kind, _ := reader.cutKind(raw)
		reader.setKind(a, kind)
	}
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("a kind takes %v allocations to be read", n)
	}
}

// FuzzKind compares the results of Decode and of the type's own Unmarshal, which skips the kind
// field. Then it encodes the value again.
func FuzzKind(f *testing.F) {
	c := Of(&corev1.ConfigMap{})
	for _, stated := range statedKinds {
		value := &corev1.ConfigMap{TypeMeta: stated, ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
		raw, ok := c.Encode(value)
		if !ok {
			f.Fatal("not encoded")
		}
		f.Add(raw)
		f.Add(append(raw, raw...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !isProtobuf(raw) {
			return
		}
		want := &corev1.ConfigMap{}
		wantErr := want.Unmarshal(raw)
		got, err := c.Decode(raw, nil)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		want.TypeMeta = got.(*corev1.ConfigMap).TypeMeta
		if !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		again, ok := c.Encode(got)
		if !ok || !isProtobuf(again) {
			t.Fatalf("%v is encoded as %q, %t", got, again, ok)
		}
		if once, err := c.Decode(again, nil); err != nil || !equality.Semantic.DeepEqual(once, got) {
			t.Fatalf("%v came back as %v, %v", got, once, err)
		}
	})
}
