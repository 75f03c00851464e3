package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// fuzzLimit is small, so that a fuzzer can exceed it.
var fuzzLimit = Limits{MaxObject: 1 << 12}

// seedPods returns small pods: a fuzzer finds new cases faster with small inputs.
func seedPods() []corev1.Pod {
	pods := oddPods()
	pods[1].Spec = corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}}
	pods[2].Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}}
	pods[2].Labels = map[string]string{"app": "x", "b": ""}
	pods[2].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}}
	return pods
}

func seedList() *corev1.PodList {
	left := int64(3)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "c", RemainingItemCount: &left, ShardInfo: &metav1.ShardInfo{Selector: "s"}}, Items: seedPods()}
}

func seedEvents() []watch.Event {
	var events []watch.Event
	for _, p := range seedPods() {
		events = append(events, watch.Event{Type: watch.Added, Object: &p})
	}
	return append(events, sampleEvents(0)...)
}

func seedBodies(f *testing.F, enc Encoding) {
	f.Add(encode(f, enc, seedList()))
	f.Add(encode(f, enc, &corev1.PodList{}))
	f.Add(encode(f, enc, &metav1.Status{Status: "Failure", Code: 410, Reason: "Expired"}))
	f.Add(encode(f, enc, &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: seedPods()[2].ObjectMeta}}}))
}

func seedObjects(f *testing.F, enc Encoding) {
	for _, p := range seedPods() {
		f.Add(bare(f, enc, &p))
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func sameBytes(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// newSmallListReader returns a reader with a small buffer. Objects then often cross the end of the
// buffer, and the reader costs little to create.
func newSmallListReader(r io.Reader, enc Encoding) *ListReader {
	l := NewListReader(r, enc, fuzzLimit)
	switch body := l.body.(type) {
	case *protoList:
		body.buf.buf = make([]byte, 64)
	case *jsonList:
		body.buf.buf = make([]byte, 64)
	}
	return l
}

func newSmallWatchReader(r io.Reader, enc Encoding) *WatchReader {
	w := NewWatchReader(r, enc, fuzzLimit)
	switch body := w.body.(type) {
	case *protoWatch:
		body.buf.buf = make([]byte, 64)
	case *jsonWatch:
		body.buf.buf = make([]byte, 64)
	}
	return w
}

// fuzzList reads a body once as a whole and once byte by byte, and checks that both results are the
// same.
func fuzzList(t *testing.T, enc Encoding, body []byte) (*ListReader, [][]byte, error) {
	l := newSmallListReader(bytes.NewReader(body), enc)
	items, err := readList(l)
	second, errSecond := readList(newSmallListReader(iotest.OneByteReader(bytes.NewReader(body)), enc))
	if errText(err) != errText(errSecond) || !sameBytes(items, second) {
		t.Fatalf("at once: %d items, %v; byte by byte: %d items, %v", len(items), err, len(second), errSecond)
	}
	return l, items, err
}

func FuzzListReaderProtobuf(f *testing.F) {
	seedBodies(f, Protobuf)
	f.Fuzz(func(t *testing.T, body []byte) {
		l, items, err := fuzzList(t, Protobuf, body)
		if err != nil {
			return
		}
		var outer runtime.Unknown
		if err := outer.Unmarshal(body[4:]); err != nil {
			t.Fatalf("taken, but apimachinery does not: %v", err)
		}
		if tm := l.TypeMeta(); tm.Kind != outer.Kind || tm.APIVersion != outer.APIVersion {
			t.Fatalf("type %v, want %v", tm, outer.TypeMeta)
		}
		fields, err := modelFields(outer.Raw)
		if err != nil || !sameBytes(items, fields[listItems]) {
			t.Fatalf("items %q, want %q", items, fields[listItems])
		}
		if metas := fields[listMetadata]; len(metas) == 1 {
			var m metav1.ListMeta
			if err := m.Unmarshal(metas[0]); err == nil && (m.ResourceVersion != l.Meta().ResourceVersion || m.Continue != l.Meta().Continue || m.ShardInfo != nil && m.ShardInfo.Selector != l.Meta().ShardSelector) {
				t.Fatalf("metadata %v, want %v", l.Meta(), m)
			}
		}
	})
}

func FuzzListReaderJSON(f *testing.F) {
	seedBodies(f, JSON)
	f.Add([]byte(`{"metadata":null,"x":[-1.5e+3,true,"\ud800"],"items":[{"a":[{}]},{ }]} `))
	f.Add([]byte(`{"items":[null,{"kind":1,"kind":2},[{}],{"metadata":{"name":"a"}},"}",{"metadata":1,"metadata":2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, items, err := fuzzList(t, JSON, body)
		want, status, wantErr := modelJSONList(body)
		switch {
		case status:
			if err == nil {
				t.Fatal("a Status taken for a list")
			}
		case isTooLarge(err):
		case (err == nil) != (wantErr == nil) || isItemError(err) != (wantErr == errModelItem):
			t.Fatalf("%v, but encoding/json: %v", err, wantErr)
		case (err == nil || isItemError(err)) && !sameBytes(items, want):
			t.Fatalf("items %q, want %q", items, want)
		}
	})
}

// fuzzWatch reads a body once as a whole and once byte by byte, and checks that both results are
// the same.
func fuzzWatch(t *testing.T, enc Encoding, body []byte) ([]Event, error) {
	events, err := readWatch(newSmallWatchReader(bytes.NewReader(body), enc))
	second, errSecond := readWatch(newSmallWatchReader(iotest.OneByteReader(bytes.NewReader(body)), enc))
	if errText(err) != errText(errSecond) || len(events) != len(second) {
		t.Fatalf("at once: %d events, %v; byte by byte: %d events, %v", len(events), err, len(second), errSecond)
	}
	for i := range events {
		if events[i].Type != second[i].Type || events[i].TypeMeta != second[i].TypeMeta || !bytes.Equal(events[i].Object, second[i].Object) {
			t.Fatalf("event %d differs byte by byte", i)
		}
	}
	return events, err
}

// checkEvent compares e with the result of apimachinery, which decodes the same event from its
// frame.
func checkEvent(e Event, frame []byte) error {
	var we metav1.WatchEvent
	if err := we.Unmarshal(frame); err != nil || we.Type != e.Type.String() {
		return fmt.Errorf("%v, apimachinery has %q, %v", e.Type, we.Type, err)
	}
	if len(we.Object.Raw) < 4 {
		return fmt.Errorf("%v, apimachinery has no object", e)
	}
	var outer runtime.Unknown
	if err := outer.Unmarshal(we.Object.Raw[4:]); err != nil || outer.Kind != e.TypeMeta.Kind || !bytes.Equal(outer.Raw, e.Object) {
		return fmt.Errorf("%v, apimachinery has %v, %v", e, outer, err)
	}
	return nil
}

func FuzzWatchReaderProtobuf(f *testing.F) {
	f.Add(encodeEvents(f, Protobuf, seedEvents()))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, _ := fuzzWatch(t, Protobuf, body)
		for i := 0; i < len(events); {
			n := uint32(body[0])<<24 | uint32(body[1])<<16 | uint32(body[2])<<8 | uint32(body[3])
			frame := body[4 : 4+n]
			body = body[4+n:]
			wrong := checkEvent(events[i], frame)
			if wrong == nil {
				i++
				// The reader skips a frame whose object is malformed, so the event may belong to a later frame.
				// It is wrong only if no frame is left.
			} else if len(body) < 4 {
				t.Fatalf("event %d: %v", i, wrong)
			}
		}
	})
}

func FuzzWatchReaderJSON(f *testing.F) {
	f.Add(encodeEvents(f, JSON, seedEvents()))
	f.Add([]byte(`{"object":{"metadata":{}},"x":1,"type":"ADDED"}{"type":"DELETED", "object":{}}`))
	f.Add([]byte(`{"object":null,"type":"ADDED"}{"type":"DELETED","object":{"kind":1}}{"type":"MODIFIED","object":{"metadata":{},"metadata":{}}}{"type":"ADDED","object":{}}{"type":"ERROR","object":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := fuzzWatch(t, JSON, body)
		want, wantErr := modelJSONWatch(body)
		if isTooLarge(err) {
			return
		}
		if (err == nil) != (wantErr == nil) || isItemError(err) != (wantErr == errModelItem) || len(events) != len(want) {
			t.Fatalf("%d events, %v; encoding/json: %d, %v", len(events), err, len(want), wantErr)
		}
		for i, e := range events {
			if e.Type != want[i].Type || !bytes.Equal(e.Object, want[i].Object) {
				t.Fatalf("event %d: %v %s, want %v %s", i, e.Type, e.Object, want[i].Type, want[i].Object)
			}
			if !json.Valid(e.Object) {
				t.Fatalf("event %d: not JSON: %s", i, e.Object)
			}
		}
	})
}
