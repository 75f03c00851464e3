package wire

import (
	"encoding/json"
	"iter"
	"time"
)

// Meta is the part of an object's metadata that weir itself reads. Its slices alias the object's
// bytes, or memory of the Meta where JSON text had to be unescaped. They are valid until the
// object's bytes change or the Meta is read into again, and must not be written to. The zero value
// is ready for ReadMeta. A Meta that is reused does not allocate. It is not safe for concurrent
// use.
type Meta struct {
	Namespace, Name, UID, ResourceVersion []byte
	Generation                            int64
	// CreationTimestamp and DeletionTimestamp are in UTC; the zero time is none.
	CreationTimestamp, DeletionTimestamp time.Time

	enc Encoding
	// labels and annotations are where they stand: in protobuf a stretch of ObjectMeta that has all
	// their entries, in JSON the text of an object.
	labels, annotations []byte
	// text holds what had to be unescaped for the fields, pair for the entry of a map last read.
	// JSON only.
	text, pair []byte
	set        []byte // of LabelSet
}

// initialEventsEnd is the annotation of the bookmark that ends the initial events.
const initialEventsEnd = "k8s.io/initial-events-end"

// CoalescedAnnotation is the annotation of a bookmark before changes that a watch cache tells one
// for each key, as it does where it listed again or a client was behind. Its value is a
// resourceVersion. Up to there the order of the changes across keys says nothing: who was told of a
// version need not have been told what became of other objects before it.
const CoalescedAnnotation = "weir.dev/coalesced"

// ReadMeta reads the metadata of an object into m and overwrites m. Missing metadata or fields
// leave m's fields empty. The error is a *SyntaxError; m must not be used then. It does not
// allocate if m is reused.
func ReadMeta(enc Encoding, object []byte, m *Meta) error {
	*m = Meta{enc: enc, text: m.text[:0], pair: m.pair[:0], set: m.set[:0]}
	if enc == Protobuf {
		return m.readProto(object)
	}
	return m.readJSON(object)
}

// bookmarkAnnotations returns those of a bookmark's annotations that InitialEventsEnd and Coalesced
// look for, as JSON.
func bookmarkAnnotations(annotations map[string]string) []byte {
	switch {
	case annotations[initialEventsEnd] == "true":
		return []byte(`{"` + initialEventsEnd + `":"true"}`)
	case annotations[CoalescedAnnotation] != "":
		// This cannot fail.
		text, _ := json.Marshal(map[string]string{CoalescedAnnotation: annotations[CoalescedAnnotation]})
		return text
	}
	return nil
}

// Forget empties m, so that it no longer refers to the object that it was read from. It keeps the
// memory that is m's own for the next object.
func (m *Meta) Forget() { *m = Meta{text: m.text[:0], pair: m.pair[:0], set: m.set[:0]} }

// TakeLabels replaces the labels and annotations by those of another Meta of the same encoding.
// They are valid as long as that one's.
func (m *Meta) TakeLabels(from *Meta) { m.labels, m.annotations = from.labels, from.annotations }

// Label returns the value of one label. If a key occurs twice it returns the last value, as all
// decoders do. The value is valid until the next call of a method of m.
func (m *Meta) Label(key string) (value []byte, ok bool) {
	return m.lookup(protoLabels, m.labels, key)
}

// Labels yields all labels in the order of the object's bytes. A key and its value are valid for
// one step of the loop. The loop must not call another method of m.
func (m *Meta) Labels() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { m.each(protoLabels, m.labels, yield) }
}

// Annotation returns the value of one annotation, under the rules of Label.
func (m *Meta) Annotation(key string) (value []byte, ok bool) {
	return m.lookup(protoAnnotations, m.annotations, key)
}

// Annotations yields all annotations, under the rules of Labels.
func (m *Meta) Annotations() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { m.each(protoAnnotations, m.annotations, yield) }
}

// InitialEventsEnd reports whether this is the bookmark that ends the initial events of a WATCH
// with sendInitialEvents (KEP-3157): annotated k8s.io/initial-events-end: "true".
func (m *Meta) InitialEventsEnd() bool {
	v, ok := m.Annotation(initialEventsEnd)
	return ok && string(v) == "true"
}

// Coalesced returns the value of CoalescedAnnotation if this is a bookmark that has it, or "".
func (m *Meta) Coalesced() string {
	v, _ := m.Annotation(CoalescedAnnotation)
	return string(v)
}

// AppendKey appends the object's key, namespace/name, or only the name if it has no namespace.
func AppendKey(dst []byte, m *Meta) []byte {
	if len(m.Namespace) > 0 {
		dst = append(dst, m.Namespace...)
		dst = append(dst, '/')
	}
	return append(dst, m.Name...)
}

func (m *Meta) lookup(field uint32, entries []byte, key string) (value []byte, ok bool) {
	if m.enc == Protobuf {
		return lookupProtoEntry(entries, field, key)
	}
	return m.lookupJSONEntry(entries, key)
}

func (m *Meta) each(field uint32, entries []byte, yield func(key, value []byte) bool) {
	if m.enc == Protobuf {
		eachProtoEntry(entries, field, yield)
		return
	}
	m.eachJSONEntry(entries, yield)
}
