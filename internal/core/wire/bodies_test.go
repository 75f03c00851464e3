package wire

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	protoserializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

var (
	protoSerializer = protoserializer.NewSerializer(apiScheme, apiScheme)
	jsonSerializer  = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, apiScheme, apiScheme, jsonserializer.SerializerOptions{})
	encodings       = []Encoding{Protobuf, JSON}
)

func serializer(enc Encoding) runtime.Serializer {
	if enc == Protobuf {
		return protoSerializer
	}
	return jsonSerializer
}

// simPods returns n simulated pods with resourceVersions.
func simPods(n int) []corev1.Pod {
	set := podsim.New(n, 1)
	pods := make([]corev1.Pod, n)
	for i := range pods {
		pods[i] = *set.Pod(i)
		pods[i].ResourceVersion = fmt.Sprint(1000 + i)
	}
	return pods
}

func podList(n int) *corev1.PodList {
	left := int64(77)
	return &corev1.PodList{
		ListMeta: metav1.ListMeta{ResourceVersion: "4711", Continue: "to<ken\"", RemainingItemCount: &left, ShardInfo: &metav1.ShardInfo{Selector: "s < '1'"}},
		Items:    simPods(n),
	}
}

// withKind sets the apiVersion and kind of obj, as a server does before it encodes obj.
func withKind(t testing.TB, obj runtime.Object) runtime.Object {
	t.Helper()
	kinds, _, err := apiScheme.ObjectKinds(obj)
	check.NoError(t, err)
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	return obj
}

// encode returns the body of kube-apiserver's response to a request for obj.
func encode(t testing.TB, enc Encoding, obj runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	check.NoError(t, serializer(enc).Encode(withKind(t, obj), &b))
	return b.Bytes()
}

// encodeStreaming returns the body with which kube-apiserver since 1.33 responds to a LIST: it
// encodes the list item by item.
func encodeStreaming(t testing.TB, enc Encoding, list runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	var s runtime.Serializer
	if enc == Protobuf {
		s = protoserializer.NewSerializerWithOptions(apiScheme, apiScheme, protoserializer.SerializerOptions{StreamingCollectionsEncoding: true})
	} else {
		s = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, apiScheme, apiScheme, jsonserializer.SerializerOptions{StreamingCollectionsEncoding: true})
	}
	check.NoError(t, s.Encode(withKind(t, list), &b))
	return b.Bytes()
}

// decodeObject decodes an object's bytes, in the form that the package comment defines.
func decodeObject(t testing.TB, enc Encoding, tm TypeMeta, object []byte) runtime.Object {
	t.Helper()
	gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	obj, _, err := serializer(enc).Decode(AppendObject(nil, enc, tm, object), &gvk, nil)
	if err != nil {
		t.Fatalf("decode: %v\n%.200q", err, object)
	}
	return obj
}

// bare returns obj's bytes as the package comment defines them: its JSON, or its protobuf message
// without the envelope.
func bare(t testing.TB, enc Encoding, obj runtime.Object) []byte {
	t.Helper()
	if enc == JSON {
		b, err := json.Marshal(obj)
		check.NoError(t, err)
		return b
	}
	b, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	check.NoError(t, err)
	return b
}

// encodeEvents returns the body of a WATCH, with kube-apiserver's framing.
func encodeEvents(t testing.TB, enc Encoding, events []watch.Event) []byte {
	t.Helper()
	var body bytes.Buffer
	framer, inner := runtime.Framer(protoserializer.LengthDelimitedFramer), runtime.Encoder(protoserializer.NewRawSerializer(apiScheme, apiScheme))
	if enc == JSON {
		framer, inner = jsonserializer.Framer, jsonSerializer
	}
	encoder := streaming.NewEncoder(framer.NewFrameWriter(&body), inner)
	embedded := restwatch.NewEncoder(encoder, serializer(enc))
	for _, e := range events {
		withKind(t, e.Object)
		check.NoError(t, embedded.Encode(&e))
	}
	return body.Bytes()
}

// readList reads a whole list and returns copies of its items, without the malformed ones. If the
// rest of the list is well-formed, the error is the first *ItemError.
func readList(l *ListReader) (items [][]byte, damaged error) {
	for {
		item, err := l.Next()
		if err == io.EOF {
			return items, damaged
		}
		if isItemError(err) {
			damaged = cmp.Or(damaged, err)
			continue
		}
		if err != nil {
			return items, err
		}
		items = append(items, bytes.Clone(item))
	}
}

func isItemError(err error) bool {
	_, ok := errors.AsType[*ItemError](err)
	return ok
}

// readWatch reads all events and copies their objects. It omits events with malformed objects. If
// the rest of the body is well-formed, damaged is the first *ItemError.
func readWatch(w *WatchReader) (events []Event, damaged error) {
	for {
		e, err := w.Next()
		if err == io.EOF {
			return events, damaged
		}
		if isItemError(err) {
			damaged = cmp.Or(damaged, err)
			continue
		}
		if err != nil {
			return events, err
		}
		e.Object = bytes.Clone(e.Object)
		events = append(events, e)
	}
}

func gzipMember(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, w.Close())
	return b.Bytes()
}

// stepReader returns one chunk per read. It fails the test if it is read when it has no chunks
// left: a reader of a connection would block there.
type stepReader struct {
	t      *testing.T
	chunks [][]byte
}

func (s *stepReader) Read(p []byte) (int, error) {
	if len(s.chunks) == 0 {
		s.t.Error("read, and would have waited")
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; len(s.chunks[0]) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

// TestNewBodyDoesNotWaitForTheNextMember checks that the reader returns all bytes of a gzip member
// before the next member arrives.
func TestNewBodyDoesNotWaitForTheNextMember(t *testing.T) {
	src := &stepReader{t: t}
	body, err := NewBody(src, "gzip")
	check.NoError(t, err)
	for _, text := range []string{"first", "second, and longer", "x"} {
		src.chunks = append(src.chunks, gzipMember(t, text))
		got := make([]byte, len(text))
		if _, err := io.ReadFull(body, got); err != nil || string(got) != text {
			t.Fatalf("%q %v, want %q", got, err, text)
		}
	}
}

func TestNewBodyMembers(t *testing.T) {
	var all []byte
	for _, text := range []string{"a", "", "b", string(bytes.Repeat([]byte("long "), 50_000)), "c"} {
		all = append(all, gzipMember(t, text)...)
	}
	for name, wrap := range readerShapes {
		body, _ := NewBody(wrap(bytes.NewReader(all)), "gzip")
		got, err := io.ReadAll(body)
		if err != nil || len(got) != 250_003 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestNewBodyBroken(t *testing.T) {
	one := gzipMember(t, "some text")
	for cut := 1; cut < len(one); cut++ {
		body, _ := NewBody(bytes.NewReader(one[:cut]), "gzip")
		if _, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for _, tail := range []string{"junk that is no gzip", "\x1f\x8b"} {
		body, _ := NewBody(bytes.NewReader(append(bytes.Clone(one), tail...)), "gzip")
		if got, err := io.ReadAll(body); err == nil || string(got) != "some text" {
			t.Errorf("%q after it: %q %v", tail, got, err)
		}
	}
	body, _ := NewBody(iotest.ErrReader(io.ErrClosedPipe), "gzip")
	if _, err := io.ReadAll(body); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("source's error: %v", err)
	}
}

func TestNewBodyEncodings(t *testing.T) {
	for _, ce := range []string{"", "identity", "Identity "} {
		r := bytes.NewReader(nil)
		if body, err := NewBody(r, ce); err != nil || body != io.Reader(r) {
			t.Errorf("%q: %v %v", ce, body, err)
		}
	}
	if _, err := NewBody(nil, "br"); !errors.Is(err, ErrUnknownEncoding) {
		t.Errorf("br: %v", err)
	}
}

func TestEncodingOf(t *testing.T) {
	for ct, want := range map[string]Encoding{
		"application/json":                JSON,
		"application/json; charset=utf-8": JSON,
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1":          JSON,
		"application/json;stream=watch":                                             JSON,
		"Application/JSON":                                                          JSON,
		"application/vnd.kubernetes.protobuf":                                       Protobuf,
		"application/vnd.kubernetes.protobuf;stream=watch":                          Protobuf,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;stream=watch": Protobuf,
		"":                 0,
		"text/plain":       0,
		"application/yaml": 0,
		"application/cbor": 0,
		"json;":            0,
	} {
		got, err := EncodingOf(ct)
		if got != want || (want == 0) != errors.Is(err, ErrUnknownEncoding) {
			t.Errorf("%q: %v %v, want %v", ct, got, err, want)
		}
	}
	if JSON.String() != "json" || Protobuf.String() != "protobuf" || Encoding(0).String() == "" {
		t.Error("names")
	}
}
