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

// Bodies are framed here from the documented formats, not with package wire: a suite that wrote
// with the package under test what that package reads would not notice a mistake in both.

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// entry is a version of an object with its bytes, which are made once and shared by all answers.
type entry struct {
	key string
	rv  uint64
	pod *corev1.Pod

	once [2]sync.Once
	raw  [2][]byte
}

const (
	asJSON = iota
	asProtobuf
)

// bytes returns the object's encoding, without kind and apiVersion.
func (e *entry) bytes(enc int) []byte {
	e.once[enc].Do(func() {
		var err error
		if enc == asProtobuf {
			e.raw[enc], err = e.pod.Marshal()
		} else {
			e.raw[enc], err = json.Marshal(e.pod)
		}
		if err != nil {
			panic(fmt.Sprintf("encode pod %s: %v", e.key, err)) // cannot happen: pods can always be encoded
		}
	})
	return e.raw[enc]
}

// spoil replaces the object's bytes by some that are no pod.
func (e *entry) spoil() {
	bare := &corev1.Pod{ObjectMeta: e.pod.ObjectMeta}
	for enc, spec := range []string{asJSON: `"spec":{"nodeName":{}}`, asProtobuf: "\x12\x03\x0a\x09x"} {
		e.once[enc].Do(func() {
			if enc == asJSON {
				meta, _ := json.Marshal(bare.ObjectMeta)
				e.raw[enc] = fmt.Appendf(nil, `{"metadata":%s,%s}`, meta, spec)
				return
			}
			meta, _ := bare.ObjectMeta.Marshal()
			e.raw[enc] = append(field(nil, 1, meta), spec...)
		})
	}
}

// field appends a length-delimited protobuf field.
func field(dst []byte, number protowire.Number, value []byte) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// envelope returns the bytes before and after a raw protobuf object: "k8s\0" and a runtime.Unknown.
func envelope(apiVersion, kind string, size int) (before, after []byte) {
	tm := field(nil, 1, []byte(apiVersion))
	tm = field(tm, 2, []byte(kind))
	before = field([]byte("k8s\x00"), 1, tm)
	before = protowire.AppendTag(before, 2, protowire.BytesType)
	before = protowire.AppendVarint(before, uint64(size))
	after = field(nil, 3, nil)
	return before, field(after, 4, nil)
}

// listBody returns the pieces of a LIST's body: the head, one or two for each item, the end. keys
// gives the order of the keys in JSON.
func listBody(enc int, meta metav1.ListMeta, items []*entry, keys []string) [][]byte {
	if enc == asJSON {
		return jsonListBody(meta, items, keys)
	}
	head, _ := meta.Marshal()
	head = field(nil, 1, head)
	size := len(head)
	for _, e := range items {
		n := len(e.bytes(enc))
		size += protowire.SizeTag(2) + protowire.SizeBytes(n)
	}
	before, after := envelope("v1", "PodList", size)
	pieces := [][]byte{append(before, head...)}
	for _, e := range items {
		raw := e.bytes(enc)
		tag := protowire.AppendTag(nil, 2, protowire.BytesType)
		pieces = append(pieces, protowire.AppendVarint(tag, uint64(len(raw))), raw)
	}
	return append(pieces, after)
}

func jsonListBody(meta metav1.ListMeta, items []*entry, keys []string) [][]byte {
	head, _ := json.Marshal(meta)
	text := []byte("{")
	var pieces [][]byte
	for n, key := range keys {
		if n > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%q:", key)
		switch key {
		case "kind":
			text = append(text, `"PodList"`...)
		case "apiVersion":
			text = append(text, `"v1"`...)
		case "metadata":
			text = append(text, head...)
		case "items":
			pieces = append(pieces, append(text, '['))
			for i, e := range items {
				if i > 0 {
					pieces = append(pieces, []byte(","))
				}
				pieces = append(pieces, e.bytes(asJSON))
			}
			text = []byte("]")
		}
	}
	return append(pieces, append(text, "}\n"...))
}

// object returns a single object as a body.
func object(enc int, apiVersion, kind string, raw []byte) []byte {
	if enc == asJSON {
		head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q`, kind, apiVersion)
		if len(raw) > len("{}") {
			head += ","
		}
		return append([]byte(head), raw[1:]...)
	}
	before, after := envelope(apiVersion, kind, len(raw))
	return append(append(before, raw...), after...)
}

// eventFrame returns one event of a WATCH.
func eventFrame(enc int, eventType string, object []byte) []byte {
	if enc == asJSON {
		frame := fmt.Appendf(nil, `{"type":%q,"object":`, eventType)
		return append(append(frame, object...), '}', '\n')
	}
	event := field(nil, 1, []byte(eventType))
	event = field(event, 2, field(nil, 1, object))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// statusBody returns a Status as a body, or as the object of an ERROR event.
func statusBody(enc int, s *metav1.Status) []byte {
	c := *s
	c.TypeMeta = metav1.TypeMeta{}
	var raw []byte
	if enc == asJSON {
		raw, _ = json.Marshal(&c)
	} else {
		raw, _ = c.Marshal()
	}
	return object(enc, "v1", "Status", raw)
}
