package informers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// encoding is how bodies are encoded. Its methods are safe for concurrent use.
type encoding interface {
	contentType() string
	streamType() string // of a watch
	itemType() metav1.TypeMeta
	path() string // of LISTs and watches

	// encode encodes a field of a pod.
	encode(encodable) ([]byte, error)
	// appendTime appends a time in seconds. All times that a stub knows are equally long.
	appendTime(dst []byte, seconds int64) []byte

	// appendHead appends what is before a LIST's items, which have size bytes. appendItem
	// appends item i, which is made of parts. appendTail appends the rest, of the same version.
	appendHead(dst []byte, version string, size int64) []byte
	appendItem(dst []byte, i int, parts *[3]*part, v *values) []byte
	appendTail(dst []byte, version string) []byte
	// appendEvent appends an event of a pod that is made of parts. frame returns an event of
	// any object.
	appendEvent(dst []byte, event string, parts *[3]*part, v *values) []byte
	frame(event string, object runtime.Object) ([]byte, error)
}

// encodable is a field of a pod: its metadata, its spec or its status.
type encodable interface{ Marshal() ([]byte, error) }

// protobufEncoding is kube-apiserver's protobuf.
type protobufEncoding struct{}

func (protobufEncoding) contentType() string { return runtime.ContentTypeProtobuf }

func (protobufEncoding) streamType() string { return runtime.ContentTypeProtobuf + ";stream=watch" }

// podTypeMeta and podsPath are those of pods.
var podTypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

const podsPath = "/api/v1/pods"

func (protobufEncoding) itemType() metav1.TypeMeta { return podTypeMeta }

func (protobufEncoding) path() string { return podsPath }

func (protobufEncoding) encode(field encodable) ([]byte, error) { return field.Marshal() }

func (protobufEncoding) appendTime(dst []byte, seconds int64) []byte {
	return protowire.AppendVarint(dst, uint64(seconds))
}

// typeMeta returns the type that an envelope has of its object: version v1, and the kind.
func typeMeta(kind string) []byte {
	b := appendField(nil, 1, []byte("v1"))
	return appendField(b, 2, []byte(kind))
}

func appendField(dst []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), value)
}

func appendLength(dst []byte, n protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.BytesType), uint64(size))
}

// sizeOf returns the size of a field whose number is below 16 and whose value has size bytes.
func sizeOf(size int) int { return 1 + protowire.SizeBytes(size) }

// magic is what a body begins with. envelopeEnd is the envelope's contentEncoding and contentType,
// which are empty, as kube-apiserver writes them.
const (
	magic       = "k8s\x00"
	envelopeEnd = "\x1a\x00\x22\x00"
)

var podType, podListType = typeMeta("Pod"), typeMeta("PodList")

func (protobufEncoding) appendHead(dst []byte, version string, size int64) []byte {
	meta, err := (&metav1.ListMeta{ResourceVersion: version}).Marshal()
	if err != nil {
		panic(err) // it has nothing but a string
	}
	dst = appendField(append(dst, magic...), 1, podListType)
	dst = appendLength(dst, 2, sizeOf(len(meta))+int(size))
	return appendField(dst, 1, meta)
}

func (e protobufEncoding) appendItem(dst []byte, _ int, parts *[3]*part, v *values) []byte {
	return e.appendPod(dst, 2, parts, v)
}

func (protobufEncoding) appendTail(dst []byte, _ string) []byte { return append(dst, envelopeEnd...) }

func podSize(parts *[3]*part) (n int) {
	for _, p := range parts {
		n += sizeOf(len(p.bytes))
	}
	return n
}

// appendPod appends a pod as a field.
func (e protobufEncoding) appendPod(dst []byte, n protowire.Number, parts *[3]*part, v *values) []byte {
	dst = appendLength(dst, n, podSize(parts))
	for i, p := range parts {
		dst = appendLength(dst, protowire.Number(i+1), len(p.bytes))
		dst = p.append(e, dst, v)
	}
	return dst
}

func (e protobufEncoding) appendEvent(dst []byte, event string, parts *[3]*part, v *values) []byte {
	body := len(magic) + sizeOf(len(podType)) + sizeOf(podSize(parts)) + len(envelopeEnd)
	dst = binary.BigEndian.AppendUint32(dst, uint32(sizeOf(len(event))+sizeOf(sizeOf(body))))
	dst = appendField(dst, 1, []byte(event))
	dst = appendLength(dst, 2, sizeOf(body))
	dst = appendLength(dst, 1, body)
	dst = appendField(append(dst, magic...), 1, podType)
	dst = e.appendPod(dst, 2, parts, v)
	return append(dst, envelopeEnd...)
}

func (protobufEncoding) frame(event string, object runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &b); err != nil {
		return nil, err
	}
	e := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: b.Bytes()}}
	raw, err := e.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

// jsonEncoding is kube-apiserver's JSON.
type jsonEncoding struct{}

func (jsonEncoding) contentType() string { return runtime.ContentTypeJSON }

func (jsonEncoding) streamType() string { return runtime.ContentTypeJSON }

func (jsonEncoding) itemType() metav1.TypeMeta { return podTypeMeta }

func (jsonEncoding) path() string { return podsPath }

func (jsonEncoding) encode(field encodable) ([]byte, error) { return json.Marshal(field) }

func (jsonEncoding) appendTime(dst []byte, seconds int64) []byte {
	return time.Unix(seconds, 0).UTC().AppendFormat(dst, time.RFC3339)
}

func (jsonEncoding) appendHead(dst []byte, version string, _ int64) []byte {
	return append(dst, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"`+version+`"},"items":[`...)
}

func (e jsonEncoding) appendItem(dst []byte, i int, parts *[3]*part, v *values) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return e.appendParts(append(dst, '{'), parts, v)
}

func (jsonEncoding) appendTail(dst []byte, _ string) []byte { return append(dst, "]}\n"...) }

// appendParts appends the fields of a pod and its closing brace.
func (e jsonEncoding) appendParts(dst []byte, parts *[3]*part, v *values) []byte {
	for i, name := range [...]string{`"metadata":`, `,"spec":`, `,"status":`} {
		dst = parts[i].append(e, append(dst, name...), v)
	}
	return append(dst, '}')
}

func (e jsonEncoding) appendEvent(dst []byte, event string, parts *[3]*part, v *values) []byte {
	return e.appendTypedEvent(dst, event, `"kind":"Pod","apiVersion":"v1",`, parts, v)
}

// appendTypedEvent appends an event of an object whose first fields are those of typeMeta.
func (e jsonEncoding) appendTypedEvent(dst []byte, event, typeMeta string, parts *[3]*part, v *values) []byte {
	dst = append(append(dst, `{"type":"`...), event...)
	dst = append(append(dst, `","object":{`...), typeMeta...)
	return append(e.appendParts(dst, parts, v), "}\n"...)
}

func (jsonEncoding) frame(event string, object runtime.Object) ([]byte, error) {
	raw, err := json.Marshal(struct {
		Type   string         `json:"type"`
		Object runtime.Object `json:"object"`
	}{event, object})
	return append(raw, '\n'), err
}
