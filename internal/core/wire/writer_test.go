package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	protoserializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

func writeList(t testing.TB, enc Encoding, list *corev1.PodList) []byte {
	t.Helper()
	var items [][]byte
	size := int64(0)
	for i := range list.Items {
		items = append(items, bare(t, enc, &list.Items[i]))
		size += ListItemSize(len(items[i]))
	}
	m := ListMeta{ResourceVersion: list.ResourceVersion, Continue: list.Continue, RemainingItemCount: -1}
	if list.RemainingItemCount != nil {
		m.RemainingItemCount = *list.RemainingItemCount
	}
	if list.ShardInfo != nil {
		m.ShardSelector = list.ShardInfo.Selector
	}
	var body bytes.Buffer
	w := NewListWriter(&body, enc, TypeMeta{"v1", "PodList"}, m, size)
	for _, item := range items {
		check.NoError(t, w.WriteItem(item))
	}
	check.NoError(t, w.Close())
	return body.Bytes()
}

// TestListWriter checks that ListWriter writes the same protobuf bytes as apimachinery's
// serializer, and JSON that decodes to the same list.
func TestListWriter(t *testing.T) {
	for _, list := range []*corev1.PodList{
		podList(7),
		{Items: append(oddPods(), simPods(1)...)},
		{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{}},
	} {
		for _, enc := range encodings {
			got := writeList(t, enc, list)
			want := encode(t, enc, list)
			if enc == Protobuf && !bytes.Equal(got, want) {
				t.Errorf("protobuf list of %d differs from apimachinery's", len(list.Items))
			}
			obj, _, err := serializer(enc).Decode(got, nil, nil)
			check.NoError(t, err)
			wanted, _, err := serializer(enc).Decode(want, nil, nil)
			check.NoError(t, err)
			check.Equal(t, cmp.Diff(wanted, obj), "", "%v", enc)
		}
	}
}

func TestListWriterWrongSize(t *testing.T) {
	item := []byte("\x0a\x00")
	for _, size := range []int64{ListItemSize(2) - 1, ListItemSize(2) + 1} {
		w := NewListWriter(io.Discard, Protobuf, TypeMeta{"v1", "PodList"}, ListMeta{}, size)
		err := w.WriteItem(item)
		if err == nil {
			err = w.Close()
		}
		if !errors.Is(err, ErrItemsSize) || !errors.Is(w.Close(), ErrItemsSize) {
			t.Errorf("announced %d: %v", size, err)
		}
	}
}

// TestAppendEvent checks that apimachinery's decoder can read the events that AppendEvent writes,
// and that the protobuf bytes are the same as those of apimachinery's encoder.
func TestAppendEvent(t *testing.T) {
	events := sampleEvents(5)
	for _, enc := range encodings {
		var body bytes.Buffer
		for _, e := range events {
			gvk := withKind(t, e.Object).GetObjectKind().GroupVersionKind()
			typ, _ := ParseEventType(string(e.Type))
			object := bare(t, enc, e.Object)
			if enc == JSON {
				e.Object.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(""))
				object = bare(t, enc, e.Object)
				var bareObject map[string]any
				check.NoError(t, json.Unmarshal(object, &bareObject))
				delete(bareObject, "apiVersion")
				object, _ = json.Marshal(bareObject)
			}
			body.Write(AppendEvent(nil, enc, typ, TypeMeta{"v1", gvk.Kind}, object))
		}
		if enc == Protobuf && !bytes.Equal(body.Bytes(), encodeEvents(t, enc, events)) {
			t.Error("protobuf events differ from apimachinery's")
		}
		framer, inner := runtime.Framer(protoserializer.LengthDelimitedFramer), runtime.Decoder(protoserializer.NewRawSerializer(apiScheme, apiScheme))
		if enc == JSON {
			framer, inner = jsonserializer.Framer, jsonSerializer
		}
		decoder := restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(io.NopCloser(&body)), inner), serializer(enc))
		for i, want := range events {
			action, obj, err := decoder.Decode()
			if err != nil {
				t.Fatalf("%v: event %d: %v", enc, i, err)
			}
			if d := cmp.Diff(withKind(t, want.Object), withKind(t, obj)); d != "" || action != want.Type {
				t.Errorf("%v: event %d: %s: %s", enc, i, action, d)
			}
		}
		if _, _, err := decoder.Decode(); err != io.EOF {
			t.Errorf("%v: after the last event: %v", enc, err)
		}
	}
}

func TestObjectRoundTrip(t *testing.T) {
	for _, pod := range append(simPods(2), oddPods()...) {
		for _, enc := range encodings {
			body := AppendObject(nil, enc, TypeMeta{"v1", "Pod"}, bare(t, enc, &pod))
			obj, _, err := serializer(enc).Decode(body, nil, nil)
			check.NoError(t, err)
			if enc == Protobuf && !bytes.Equal(body, encode(t, enc, pod.DeepCopy())) {
				t.Error("protobuf body differs from apimachinery's")
			}
			tm, object, err := CutObject(enc, encode(t, enc, obj))
			check.NoError(t, err)
			check.Equal(t, tm, (TypeMeta{"v1", "Pod"}), "%v: cut a", enc)
			decoded := decodeObject(t, enc, tm, object)
			check.Equal(t, cmp.Diff(obj, decoded), "", "%v", enc)
		}
	}
}

func TestAppendObjectAddsMissingFields(t *testing.T) {
	tm := TypeMeta{"v1", "Pod"}
	for in, want := range map[string]string{
		`{}`:                               `{"kind":"Pod","apiVersion":"v1"}`,
		`{ "a":1}`:                         `{"kind":"Pod","apiVersion":"v1", "a":1}`,
		`{"a":{"kind":"x"}}`:               `{"kind":"Pod","apiVersion":"v1","a":{"kind":"x"}}`,
		`{"a":1,"kind":"Q"}`:               `{"apiVersion":"v1","a":1,"kind":"Q"}`,
		`{"apiVersion":"v2"}`:              `{"kind":"Pod","apiVersion":"v2"}`,
		`{"a":1,"apiVersion":"","kind":0}`: `{"a":1,"apiVersion":"","kind":0}`,
	} {
		check.Equal(t, string(AppendObject(nil, JSON, tm, []byte(in))), want, "%s", in)
	}
}

func TestAppendWithResourceVersion(t *testing.T) {
	for _, pod := range append(simPods(2), oddPods()...) {
		for _, enc := range encodings {
			got, err := AppendWithResourceVersion([]byte("x"), enc, bare(t, enc, &pod), "123456789")
			check.NoError(t, err)
			want := pod.DeepCopy()
			want.ResourceVersion = "123456789"
			if enc == Protobuf {
				if !bytes.Equal(got[1:], bare(t, enc, want)) {
					t.Error("protobuf differs from the changed object's")
				}
				continue
			}
			var back corev1.Pod
			check.NoError(t, json.Unmarshal(got[1:], &back))
			back.CreationTimestamp, want.CreationTimestamp = metav1.Time{}, metav1.Time{}
			if d := cmp.Diff(want, &back); d != "" {
				t.Error(d)
			}
		}
	}
	for in, want := range map[string]string{
		`{}`:                                     `{"metadata":{"resourceVersion":"7"}}`,
		`{"a":1}`:                                `{"metadata":{"resourceVersion":"7"},"a":1}`,
		`{"metadata":null}`:                      `{"metadata":{"resourceVersion":"7"}}`,
		`{"metadata":{"resourceVersion": null}}`: `{"metadata":{"resourceVersion": "7"}}`,
		`{"metadata":{"resource\u0056ersion":"1"},"resourceVersion":"2"}`: `{"metadata":{"resource\u0056ersion":"7"},"resourceVersion":"2"}`,
	} {
		got, err := AppendWithResourceVersion(nil, JSON, []byte(in), "7")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
}
func TestAppendWithAPIVersion(t *testing.T) {
	for _, tt := range []struct{ object, want string }{
		{`{"apiVersion":"a/v1","kind":"K"}`, `{"apiVersion":"b/v2","kind":"K"}`},
		{` { "kind" : {"apiVersion":"inner"}, "apiVersion" : "a\u002fv1" , "x":1}`, ` { "kind" : {"apiVersion":"inner"}, "apiVersion" : "b/v2" , "x":1}`},
		{`{}`, `{}`},
		{`{"kind":"K"}`, `{"kind":"K"}`},
	} {
		got, err := AppendWithAPIVersion([]byte("-"), []byte(tt.object), "b/v2")
		if err != nil || string(got) != "-"+tt.want {
			t.Errorf("%s: got %s, %v", tt.object, got, err)
		}
	}
	for _, bad := range []string{``, `[]`, `5`, `{"apiVersion"`, `{"a":`, `{"a":1`} {
		if got, err := AppendWithAPIVersion(nil, []byte(bad), "b/v2"); err == nil {
			t.Errorf("%s became %s", bad, got)
		}
	}
}
