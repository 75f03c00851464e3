package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Meta is the part of an object's metadata that Weir itself reads. Its slices alias the object's
// bytes, or the Meta's own memory if JSON text had escapes. They must not be modified, and are
// valid until the object's bytes change or until the next ReadMeta into the same Meta. The zero
// value is ready for ReadMeta. Reusing a Meta avoids allocations. It is not safe for concurrent
// use.
type Meta struct {
	Namespace, Name, UID, ResourceVersion []byte
	Generation                            int64
	// CreationTimestamp and DeletionTimestamp are in UTC; the zero time means that the object has
	// none.
	CreationTimestamp, DeletionTimestamp time.Time

	enc Encoding
	// labels and annotations alias the object's bytes. In protobuf, each of them is the part of
	// ObjectMeta that contains all entries of the map. In JSON, each of them is the text of a JSON
	// object.
	labels, annotations []byte
	// unescaped contains the texts of JSON fields that had escapes. entries contains the texts of
	// labels or annotations that had escapes, for the map that was read last.
	unescaped, entries []byte
	set                []byte // the memory of LabelSet's result
}

// initialEventsEnd is the annotation of the bookmark that ends the initial events.
const initialEventsEnd = "k8s.io/initial-events-end"

// CoalescedAnnotation is the annotation of a bookmark that precedes coalesced changes. Coalesced
// changes are only the last change of each key; a watch cache sends them after a relist, or to a
// slow client. The annotation's value is a resourceVersion. Up to that version, changes of
// different keys arrive in no particular order: an older change of one object may follow a newer
// change of another object.
const CoalescedAnnotation = "weir.dev/coalesced"

// ReadMeta reads the metadata of an object into m and overwrites m. Fields that the object does not
// have are empty in m. The error is a *SyntaxError; after an error, m must not be used. ReadMeta
// does not allocate if m is reused.
func ReadMeta(enc Encoding, object []byte, m *Meta) error {
	m.Forget()
	m.enc = enc
	if enc == Protobuf {
		return m.readProto(object)
	}
	return m.readJSON(object)
}

// bookmarkAnnotations returns the annotations that InitialEventsEnd and Coalesced read, as a JSON
// object.
func bookmarkAnnotations(annotations map[string]string) []byte {
	switch {
	case annotations[initialEventsEnd] == "true":
		return []byte(`{"` + initialEventsEnd + `":"true"}`)
	case annotations[CoalescedAnnotation] != "":
		// Marshalling strings cannot fail.
		text, _ := json.Marshal(map[string]string{CoalescedAnnotation: annotations[CoalescedAnnotation]})
		return text
	}
	return nil
}

// Forget empties m, so that m no longer refers to an object's bytes. m keeps its own memory for the
// next ReadMeta.
func (m *Meta) Forget() {
	*m = Meta{unescaped: m.unescaped[:0], entries: m.entries[:0], set: m.set[:0]}
}

// TakeLabels sets the labels and annotations of m to those of another Meta (from). They are valid
// in m as long as they are valid in from. Both Metas must have the same encoding.
func (m *Meta) TakeLabels(from *Meta) { m.labels, m.annotations = from.labels, from.annotations }

// Label returns the value of one label. If the key occurs twice, Label returns the last value, as
// Kubernetes' decoders do. The value is valid until the next call of a method of m.
func (m *Meta) Label(key string) (value []byte, ok bool) {
	return m.lookup(protoLabels, m.labels, key)
}

// Labels yields all labels in the order of the object's bytes. Each key and value is valid only in
// its own iteration. The loop must not call another method of m.
func (m *Meta) Labels() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { m.each(protoLabels, m.labels, yield) }
}

// Annotation returns the value of one annotation. The rules of Label apply to it.
func (m *Meta) Annotation(key string) (value []byte, ok bool) {
	return m.lookup(protoAnnotations, m.annotations, key)
}

// Annotations yields all annotations. The rules of Labels apply to it.
func (m *Meta) Annotations() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) { m.each(protoAnnotations, m.annotations, yield) }
}

// InitialEventsEnd reports whether the object is the bookmark that ends the initial events of a
// WATCH with sendInitialEvents (KEP-3157). That bookmark has the annotation
// k8s.io/initial-events-end: "true".
func (m *Meta) InitialEventsEnd() bool {
	v, ok := m.Annotation(initialEventsEnd)
	return ok && string(v) == "true"
}

// Coalesced returns the value of CoalescedAnnotation, or "" if the object does not have that
// annotation.
func (m *Meta) Coalesced() string {
	v, _ := m.Annotation(CoalescedAnnotation)
	return string(v)
}

// AppendKey appends the object's key: namespace/name, or only the name if the object has no
// namespace.
func AppendKey(dst []byte, m *Meta) []byte {
	if len(m.Namespace) > 0 {
		dst = append(dst, m.Namespace...)
		dst = append(dst, '/')
	}
	return append(dst, m.Name...)
}

// lookup returns the value of the last entry with the given key.
func (m *Meta) lookup(field uint32, entries []byte, key string) (value []byte, found bool) {
	m.each(field, entries, func(k, v []byte) bool {
		if string(k) == key {
			value, found = v, true
		}
		return true
	})
	return value, found
}

func (m *Meta) each(field uint32, entries []byte, yield func(key, value []byte) bool) {
	if m.enc == Protobuf {
		eachProto(entries, field, yield)
		return
	}
	m.eachJSON(entries, yield)
}

// Identity identifies one version of an object.
type Identity struct{ Namespace, Name, UID, ResourceVersion string }

// IdentityOf returns the identity of a Go value that a program made. It calls only the getters of
// the four fields of Identity, because a type may implement only a part of metav1.Object and panic
// in the other methods. If GetUID panics, the UID is "". IdentityOf returns an error if the value
// is nil, a nil pointer or no API object, or if one of the other three getters panics.
func IdentityOf(value any) (id Identity, err error) {
	err = readObject(value, func(o metav1.Object) {
		id = Identity{o.GetNamespace(), o.GetName(), uidOf(o), o.GetResourceVersion()}
	})
	return id, err
}

// uidOf returns the uid of an object, or "" if GetUID panics. A type may lack a working GetUID,
// because client-go does not call it.
func uidOf(o metav1.Object) (uid string) {
	defer func() { _ = recover() }()
	return string(o.GetUID())
}

// ReadMetaOf reads the identity of a Go value into m and overwrites m. It reads no other metadata.
// It returns an error in the same cases as IdentityOf.
func ReadMetaOf(value any, m *Meta) error {
	id, err := IdentityOf(value)
	if err != nil {
		return err
	}
	m.Forget()
	m.enc = JSON
	m.Namespace, m.Name, m.UID, m.ResourceVersion = []byte(id.Namespace), []byte(id.Name), []byte(id.UID), []byte(id.ResourceVersion)
	return nil
}

// ReadBookmarkOf does what ReadMetaOf does, for the object of a BOOKMARK event. It also reads the
// annotations that InitialEventsEnd and Coalesced report.
func ReadBookmarkOf(value any, m *Meta) error {
	if err := ReadMetaOf(value, m); err != nil {
		return err
	}
	return readObject(value, func(o metav1.Object) { m.annotations = bookmarkAnnotations(o.GetAnnotations()) })
}

// readObject calls read with the metadata of value. It returns an error if value has no metadata,
// or if read panics.
func readObject(value any, read func(metav1.Object)) (err error) {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("a nil %T", value)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("read the metadata of %T: panic: %v", value, cause)
		}
	}()
	object, err := meta.Accessor(value)
	if err != nil {
		return fmt.Errorf("%T has no metadata: %w", value, err)
	}
	read(object)
	return nil
}

// LabelSet returns all labels as one text; see EachLabel. Two objects have equal texts if and only
// if they have the same labels. The text is valid until the next call of a method of m.
func (m *Meta) LabelSet() []byte {
	set, last, ordered := m.set[:0], []byte(nil), true
	for key, value := range m.Labels() {
		if ordered = ordered && (len(set) == 0 || bytes.Compare(last, key) < 0); !ordered {
			break
		}
		at := len(set) + protowire.SizeVarint(uint64(len(key)))
		set = appendLabel(set, key, value)
		last = set[at:][:len(key)]
	}
	if m.set = set; !ordered {
		m.set = m.sortedSet()
	}
	return m.set
}

// sortedSet returns the result of LabelSet for labels that are unsorted or have duplicate keys.
// Kubernetes' encoders do not write such labels.
func (m *Meta) sortedSet() (set []byte) {
	var keys []string
	for key := range m.Labels() {
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		value, _ := m.Label(key)
		set = appendLabel(set, []byte(key), value)
	}
	return set
}

// LabelSetOf returns the text that Meta.LabelSet returns for an object with these labels.
func LabelSetOf(labels map[string]string) (set []byte) {
	keys := make([]string, 0, len(labels))
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		set = appendLabel(set, []byte(key), []byte(labels[key]))
	}
	return set
}

// EachLabel yields the labels in set, a result of LabelSet or LabelSetOf, ordered by key. It stops
// at the first label that is malformed.
func EachLabel(set string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for len(set) > 0 {
			var key, value string
			var ok bool
			if key, set, ok = cutText(set); !ok {
				return
			}
			if value, set, ok = cutText(set); !ok || !yield(key, value) {
				return
			}
		}
	}
}

func appendLabel(set, key, value []byte) []byte {
	set = append(binary.AppendUvarint(set, uint64(len(key))), key...)
	return append(binary.AppendUvarint(set, uint64(len(value))), value...)
}

// cutText splits s into its first text and the rest. The length of the first text precedes it in s.
func cutText(s string) (text, rest string, ok bool) {
	size, n := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen32)]))
	if n <= 0 || size > uint64(len(s)-n) {
		return "", "", false
	}
	rest = s[n:]
	return rest[:size], rest[size:], true
}
