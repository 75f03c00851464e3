package informertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file builds the bodies of responses without package wire, which Weir's informers use to read
// bodies. If the suite used package wire too, it would not detect a mistake that package wire makes
// both in encoding and in decoding.

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// entry is a version of an object with its encodings. Each encoding is made at first use, and all
// answers share it.
type entry struct {
	key string
	rv  uint64
	pod *corev1.Pod

	once [encodings]sync.Once
	raw  [encodings][]byte
}

// encoding is a form in which objects are sent.
type encoding int

const (
	asJSON encoding = iota
	asProtobuf
	asJSONMetadata // only the metadata of a pod: see MetadataOf
	asProtobufMetadata
	encodings
)

func (enc encoding) isJSON() bool     { return enc == asJSON || enc == asJSONMetadata }
func (enc encoding) isMetadata() bool { return enc >= asJSONMetadata }

func (enc encoding) mediaType() string {
	if enc.isJSON() {
		return typeJSON
	}
	return typeProtobuf
}

// types returns the apiVersion of objects, the kind of an object and the kind of a list.
func (enc encoding) types() (apiVersion, kind, listKind string) {
	if enc.isMetadata() {
		return metav1.SchemeGroupVersion.String(), "PartialObjectMetadata", "PartialObjectMetadataList"
	}
	return "v1", "Pod", "PodList"
}

// message is an API object that can be encoded as JSON or as protobuf.
type message interface{ Marshal() ([]byte, error) }

func (enc encoding) encoded(object message) []byte {
	var raw []byte
	var err error
	if enc.isJSON() {
		raw, err = json.Marshal(object)
	} else {
		raw, err = object.Marshal()
	}
	if err != nil {
		// This cannot happen: API objects can always be encoded.
		panic(fmt.Sprintf("encode %T: %v", object, err))
	}
	return raw
}

// bytes returns the object's encoding, without kind and apiVersion.
func (e *entry) bytes(enc encoding) []byte {
	e.once[enc].Do(func() {
		if enc.isMetadata() {
			e.raw[enc] = enc.encoded(MetadataOf(e.pod))
		} else {
			e.raw[enc] = enc.encoded(e.pod)
		}
	})
	return e.raw[enc]
}

// spoil sets the entry's encodings to bytes whose metadata can be decoded but whose other content
// cannot be decoded as a pod.
func (e *entry) spoil() {
	for enc := range encodings {
		e.once[enc].Do(func() {
			switch meta := enc.encoded(&e.pod.ObjectMeta); enc {
			case asJSON:
				e.raw[enc] = fmt.Appendf(nil, `{"metadata":%s,"spec":{"nodeName":{}}}`, meta)
			case asProtobuf:
				e.raw[enc] = append(field(nil, 1, meta), "\x12\x03\x0a\x09x"...)
			default:
				e.raw[enc] = enc.encoded(metadataOf(e.pod, "no JSON"))
			}
		})
	}
}

func field(dst []byte, number protowire.Number, value []byte) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// envelope returns the bytes that kube-apiserver puts before and after an object in protobuf:
// "k8s\0" and the other fields of a runtime.Unknown. size is the size of the object.
func envelope(apiVersion, kind string, size int) (before, after []byte) {
	tm := field(nil, 1, []byte(apiVersion))
	tm = field(tm, 2, []byte(kind))
	before = field([]byte("k8s\x00"), 1, tm)
	before = protowire.AppendTag(before, 2, protowire.BytesType)
	before = protowire.AppendVarint(before, uint64(size))
	after = field(nil, 3, nil)
	return before, field(after, 4, nil)
}

// listBody returns the body of a LIST in pieces: the head, one or two pieces for each item, and the
// end. keys is the order of the keys in JSON.
func listBody(enc encoding, meta metav1.ListMeta, items []*entry, keys []string) [][]byte {
	if enc.isJSON() {
		return jsonListBody(enc, meta, items, keys)
	}
	head := field(nil, 1, enc.encoded(&meta))
	size := len(head)
	for _, e := range items {
		n := len(e.bytes(enc))
		size += protowire.SizeTag(2) + protowire.SizeBytes(n)
	}
	apiVersion, _, kind := enc.types()
	before, after := envelope(apiVersion, kind, size)
	pieces := [][]byte{append(before, head...)}
	for _, e := range items {
		raw := e.bytes(enc)
		tag := protowire.AppendTag(nil, 2, protowire.BytesType)
		pieces = append(pieces, protowire.AppendVarint(tag, uint64(len(raw))), raw)
	}
	return append(pieces, after)
}

func jsonListBody(enc encoding, meta metav1.ListMeta, items []*entry, keys []string) [][]byte {
	apiVersion, kind, listKind := enc.types()
	text := []byte("{")
	var pieces [][]byte
	for n, key := range keys {
		if n > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%q:", key)
		switch key {
		case "kind":
			text = fmt.Appendf(text, "%q", listKind)
		case "apiVersion":
			text = fmt.Appendf(text, "%q", apiVersion)
		case "metadata":
			text = append(text, enc.encoded(&meta)...)
		case "items":
			pieces = append(pieces, append(text, '['))
			for i, e := range items {
				if i > 0 {
					pieces = append(pieces, []byte(","))
				}
				item := e.bytes(enc)
				if enc.isMetadata() {
					item = object(enc, apiVersion, kind, item) // kube-apiserver also adds apiVersion and kind here
				}
				pieces = append(pieces, item)
			}
			text = []byte("]")
		}
	}
	return append(pieces, append(text, "}\n"...))
}

// namespacesBody returns the body of a LIST of namespaces, which have only a name.
func namespacesBody(enc encoding, meta metav1.ListMeta, names []string) []byte {
	if enc.isMetadata() {
		list := metav1.PartialObjectMetadataList{ListMeta: meta}
		for _, name := range names {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		apiVersion, _, kind := enc.types()
		return object(enc, apiVersion, kind, enc.encoded(&list))
	}
	list := corev1.NamespaceList{ListMeta: meta}
	for _, name := range names {
		list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return object(enc, "v1", "NamespaceList", enc.encoded(&list))
}

// object returns an encoded object as a body, with its apiVersion and kind.
func object(enc encoding, apiVersion, kind string, raw []byte) []byte {
	if enc.isJSON() {
		head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q`, kind, apiVersion)
		if len(raw) > len("{}") {
			head += ","
		}
		return append([]byte(head), raw[1:]...)
	}
	before, after := envelope(apiVersion, kind, len(raw))
	return append(append(before, raw...), after...)
}

// eventFrame returns the encoding of one event of a WATCH.
func eventFrame(enc encoding, eventType string, object []byte) []byte {
	if enc.isJSON() {
		frame := fmt.Appendf(nil, `{"type":%q,"object":`, eventType)
		return append(append(frame, object...), '}', '\n')
	}
	event := field(nil, 1, []byte(eventType))
	event = field(event, 2, field(nil, 1, object))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// statusBody returns the encoding of a Status, as a body or as the object of an ERROR event.
func statusBody(enc encoding, s *metav1.Status) []byte {
	c := *s
	c.TypeMeta = metav1.TypeMeta{}
	return object(enc, "v1", "Status", enc.encoded(&c))
}
