package wire

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

// The item of a list and the object of an event are the same object, though the event's says its
// kind in JSON.
func TestFingerprintOfListAndWatch(t *testing.T) {
	for _, enc := range encodings {
		list := podList(20)
		items, err := readList(NewListReader(bytes.NewReader(encode(t, enc, list)), enc, Limits{}))
		check.NoError(t, err)
		var events []watch.Event
		for i := range list.Items {
			events = append(events, watch.Event{Type: watch.Added, Object: withKind(t, &list.Items[i])})
		}
		got, err := readWatch(NewWatchReader(bytes.NewReader(encodeEvents(t, enc, events)), enc, Limits{}))
		check.NoError(t, err)
		seen := map[uint64]int{}
		for i, item := range items {
			f := Fingerprint(enc, item)
			if other, ok := seen[f]; ok || f == 0 {
				t.Errorf("%v: pod %d has the fingerprint %x of pod %d", enc, i, f, other)
			}
			seen[f] = i
			if event := got[i].Object; Fingerprint(enc, event) != f || !Same(enc, item, event) {
				t.Errorf("%v: pod %d is not the same in an event:\n%s\n%s", enc, i, item, event)
			}
			if enc == JSON && bytes.Equal(item, got[i].Object) {
				t.Error("the event does not say its kind")
			}
		}
	}
}

// The same for a custom resource, whose members are sorted.
func TestFingerprintOfCustomResource(t *testing.T) {
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "data": map[string]any{"x": "y"},
		"metadata": map[string]any{"name": "w", "resourceVersion": "5"}, "spec": map[string]any{"color": "red"},
	}}
	text, err := widget.MarshalJSON()
	check.NoError(t, err)
	widget.Object["spec"] = map[string]any{"color": "blue"}
	other, err := widget.MarshalJSON()
	check.NoError(t, err)
	if Fingerprint(JSON, text) == Fingerprint(JSON, other) || Same(JSON, text, other) {
		t.Error("red is as good as blue")
	}
}

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{}`, `{"kind":"Pod","apiVersion":"v1"}`, true},
		{`{"metadata":{"name":"a"},"spec":{"x":1}}`, "\n{ \"spec\" : {\"x\":1} , \"kind\":\"Pod\",\"metadata\" : {\"name\":\"a\"}\n}", true},
		{`{"metadata":{"name":"a"}}`, `{"m\u0065tadata":{"name":"a"}}`, true},
		{`{"spec":{"x":1}}`, `{"spec":{"x":2}}`, false},
		{`{"spec":{"x":1}}`, `{"spec":{"x":1},"status":{}}`, false},
		{`{"spec":{"x":1},"status":{}}`, `{"spec":{"x":1}}`, false},
		{`{"spec":1,"data":1}`, `{"spec":1,"spec":1}`, false},
		{`{"spec":1}`, `{"spec":1`, false},
		{``, `{}`, false},
	} {
		check.Equal(t, Same(JSON, []byte(tc.a), []byte(tc.b)), tc.want, "%s and %s", tc.a, tc.b)
	}
	a, b := bare(t, Protobuf, &podList(1).Items[0]), bare(t, Protobuf, &podList(2).Items[1])
	if !Same(Protobuf, a, bytes.Clone(a)) || Same(Protobuf, a, b) {
		t.Error("protobuf is compared wrong")
	}
}

// Objects that differ after the members that do not count have different fingerprints, and
// Fingerprint ends for every input.
func TestFingerprintOfAnything(t *testing.T) {
	same := Fingerprint(JSON, []byte(`{"metadata":{"name":"a"}}`))
	for text, want := range map[string]bool{
		`{"kind":"Pod","metadata":{"name":"a"}}`:                        true,
		` { "apiVersion" : "v1" , "kind":"x","metadata":{"name":"a"}}`:  true,
		`{"kind":{"kind":"Pod"},"metadata":{"name":"a"}}`:               true,
		`{"kinds":"Pod","metadata":{"name":"a"}}`:                       false,
		`{"kind":"Pod","metadata":{"name":"b"}}`:                        false,
		`{"kind":"Pod","metadata":{"name":"a"},"status":{"phase":"x"}}`: false,
		``: false, `{`: false, `{"`: false, `{"kind`: false, `{"kind"`: false, `{"kind":`: false, `{"kind":"x"`: false, `{"kind":"x",`: false, `{}`: false,
	} {
		check.Equal(t, Fingerprint(JSON, []byte(text)) == same, want, "%s: the same", text)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for _, enc := range encodings {
		b.Run(enc.String(), func(b *testing.B) {
			object := bare(b, enc, &podList(1).Items[0])
			b.SetBytes(int64(len(object)))
			for b.Loop() {
				Fingerprint(enc, object)
			}
		})
	}
}
