package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

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

// simPods makes n simulated pods with resourceVersions.
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

// withKind gives obj its apiVersion and kind, as a server does before it encodes.
func withKind(t testing.TB, obj runtime.Object) runtime.Object {
	t.Helper()
	kinds, _, err := apiScheme.ObjectKinds(obj)
	check.NoError(t, err)
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	return obj
}

// encode is what kube-apiserver would answer with.
func encode(t testing.TB, enc Encoding, obj runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	check.NoError(t, serializer(enc).Encode(withKind(t, obj), &b))
	return b.Bytes()
}

// encodeStreaming is what kube-apiserver since 1.33 answers with to a LIST: the same, but written
// item by item.
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

// decodeObject is the reverse, of bytes as this package has them.
func decodeObject(t testing.TB, enc Encoding, tm TypeMeta, object []byte) runtime.Object {
	t.Helper()
	gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	obj, _, err := serializer(enc).Decode(AppendObject(nil, enc, tm, object), &gvk, nil)
	if err != nil {
		t.Fatalf("decode: %v\n%.200q", err, object)
	}
	return obj
}

// bare is obj as this package has an object: its JSON, or its message without envelope.
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

// encodeEvents is the body of a WATCH as kube-apiserver frames it.
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

// readList reads a whole list, with its items copied. Items that cannot be read are left out, and
// the first of their errors is returned if the rest of the list can be read.
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

// readWatch reads all events, with their objects copied, as readList reads items.
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
