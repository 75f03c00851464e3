package wire

import (
	"strconv"
	"time"
)

// protoMetadata is the number of the field that contains the metadata. It is 1 in every kind that
// can be listed and watched.
const protoMetadata = 1

// Numbers of the ObjectMeta fields that this package reads.
const (
	protoName              = 1
	protoNamespace         = 3
	protoUID               = 5
	protoResourceVersion   = 6
	protoGeneration        = 7
	protoCreationTimestamp = 8
	protoDeletionTimestamp = 9
	protoLabels            = 11
	protoAnnotations       = 12
)

// metaField returns the protobuf field number of a JSON metadata member, or 0 if this package does
// not read the member. raw is the member's name, as written between the quotes.
func metaField(raw []byte) uint32 {
	raw, _ = textOfRaw(nil, raw)
	switch string(raw) {
	case "name":
		return protoName
	case "namespace":
		return protoNamespace
	case "uid":
		return protoUID
	case "resourceVersion":
		return protoResourceVersion
	case "generation":
		return protoGeneration
	case "creationTimestamp":
		return protoCreationTimestamp
	case "deletionTimestamp":
		return protoDeletionTimestamp
	case "labels":
		return protoLabels
	case "annotations":
		return protoAnnotations
	}
	return 0
}

// metaTypes contains, by field number, the wire type plus one of each field that this package
// reads. For all other fields it contains 0.
var metaTypes = [...]uint8{
	protoName:              typeBytes + 1,
	protoNamespace:         typeBytes + 1,
	protoUID:               typeBytes + 1,
	protoResourceVersion:   typeBytes + 1,
	protoGeneration:        typeVarint + 1,
	protoCreationTimestamp: typeBytes + 1,
	protoDeletionTimestamp: typeBytes + 1,
	protoLabels:            typeBytes + 1,
	protoAnnotations:       typeBytes + 1,
}

// fieldSet is a set of field numbers below 16.
type fieldSet uint16

// add adds num. It returns true if s already contained num.
func (s *fieldSet) add(num uint32) bool {
	was := *s&(1<<num) != 0
	*s |= 1 << num
	return was
}

// textField returns a pointer to the field of m with this protobuf number. The field must be a
// text.
func (m *Meta) textField(field uint32) *[]byte {
	switch field {
	case protoName:
		return &m.Name
	case protoNamespace:
		return &m.Namespace
	case protoUID:
		return &m.UID
	}
	return &m.ResourceVersion
}

// timeField returns a pointer to the field of m with this protobuf number. The field must be a
// time.
func (m *Meta) timeField(field uint32) *time.Time {
	if field == protoCreationTimestamp {
		return &m.CreationTimestamp
	}
	return &m.DeletionTimestamp
}

func (m *Meta) readProto(object []byte) error {
	found := false
	var f protoField
	for i := 0; i < len(object); {
		next := f.consume(object, i)
		if next < 0 {
			return fieldError(int64(i), "object", next)
		}
		if f.num == protoMetadata {
			if err := checkField(f.num, f.typ, typeBytes, found, "object", int64(i)); err != nil {
				return err
			}
			found = true
			if err := m.readProtoMeta(f.bytes, int64(f.from)); err != nil {
				return err
			}
		}
		i = next
	}
	return nil
}

// readProtoMeta reads b, an ObjectMeta that starts at offset in the object.
func (m *Meta) readProtoMeta(b []byte, offset int64) error {
	var seen fieldSet
	var labels, annotations span
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return fieldError(at, "metadata", next)
		}
		from := i
		if i = next; f.num >= uint32(len(metaTypes)) || metaTypes[f.num] == 0 {
			continue
		}
		if f.typ != metaTypes[f.num]-1 {
			return malformedf(at, "metadata: field %d has wire type %d", f.num, f.typ)
		}
		twice, ok := seen.add(f.num), true
		switch f.num {
		case protoLabels:
			labels.cover(from, next)
			_, _, ok = protoEntry(f.bytes)
			twice = false
		case protoAnnotations:
			annotations.cover(from, next)
			_, _, ok = protoEntry(f.bytes)
			twice = false
		case protoGeneration:
			m.Generation = int64(f.varint)
		case protoCreationTimestamp, protoDeletionTimestamp:
			*m.timeField(f.num), ok = protoTime(f.bytes)
		default:
			*m.textField(f.num) = f.bytes
		}
		if twice {
			return malformedf(at, "metadata: field %d twice", f.num)
		}
		if !ok {
			return malformedf(at, "metadata: field %d is malformed inside", f.num)
		}
	}
	m.labels, m.annotations = labels.of(b), annotations.of(b)
	return nil
}

// protoTime returns the time in a Time message, in whole seconds: Kubernetes does not write
// fractions. For an empty message, it returns the zero time.
func protoTime(b []byte) (time.Time, bool) {
	f := [...]protoField{1: {typ: typeVarint}, 2: {typ: typeVarint}} // seconds, nanoseconds
	if len(b) == 0 || readFields(b, f[:], "", 0) != nil {
		return time.Time{}, len(b) == 0
	}
	return time.Unix(int64(f[1].varint), 0).UTC(), true
}

// protoEntry returns the key and the value of an entry of a map from strings to strings. It is
// faster than readFields, and accepts an entry in which the key or the value occurs twice.
func protoEntry(b []byte) (key, value []byte, ok bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 || f.num <= 2 && f.typ != typeBytes {
			return nil, nil, false
		}
		switch f.num {
		case 1:
			key = f.bytes
		case 2:
			value = f.bytes
		}
	}
	return key, value, true
}

// eachProto calls yield for each entry of a map until yield returns false. b contains the entries,
// as occurrences of the given field.
func eachProto(b []byte, field uint32, yield func(key, value []byte) bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return
		}
		if f.num != field {
			continue
		}
		key, value, ok := protoEntry(f.bytes)
		if !ok || !yield(key, value) {
			return
		}
	}
}

// readJSON reads the metadata of a JSON object and ignores the other members. It stops at the first
// metadata member: the readers and CutObject refuse an object with two metadata members.
func (m *Meta) readJSON(object []byte) error {
	w := membersOf(object)
	found := w.seek("metadata")
	switch {
	case w.failed():
		return malformed(int64(w.i), "object: not JSON")
	case !found:
		return nil
	}
	return m.readJSONMeta(object, w.value.from)
}

// readJSONMeta reads the metadata at object[i:].
func (m *Meta) readJSONMeta(object []byte, i int) error {
	if i < len(object) && object[i] == 'n' {
		return nil
	}
	var seen fieldSet
	w := membersAt(object, i)
	for w.next() {
		field := metaField(w.name)
		if field == 0 {
			continue
		}
		if seen.add(field) {
			return malformedf(int64(w.value.from), "metadata: %s twice", w.name)
		}
		if v := w.value.of(object); !isNull(v) && !m.setJSON(field, v) {
			return malformedf(int64(w.value.from), "metadata: %s is not of its type", w.name)
		}
	}
	if w.failed() {
		return malformed(int64(w.i), "metadata: not an object")
	}
	return nil
}

// setJSON sets a field of m to v, the value of a metadata member. It returns false if the member
// identifies the object, as name or uid does, and v is not a string. It ignores any other member of
// a wrong type, as unstructured.Unstructured does.
func (m *Meta) setJSON(field uint32, v []byte) (ok bool) {
	switch field {
	case protoLabels:
		if stringMap(v) {
			m.labels = v
		}
	case protoAnnotations:
		if stringMap(v) {
			m.annotations = v
		}
	case protoGeneration:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			m.Generation = n
		}
	case protoCreationTimestamp, protoDeletionTimestamp:
		if isString(v) {
			var text []byte
			text, m.unescaped = stringText(m.unescaped, v)
			*m.timeField(field) = jsonTime(text)
		}
	default:
		if !isString(v) {
			return false
		}
		*m.textField(field), m.unescaped = stringText(m.unescaped, v)
	}
	return true
}

// jsonTime returns the time that metav1.Time parses from text, or the zero time if text is not a
// time.
func jsonTime(text []byte) (t time.Time) {
	if t.UnmarshalText(text) != nil {
		t, _ = time.Parse(time.RFC3339, string(text)) // time.Parse is less strict
	}
	return t.UTC()
}

// stringMap reports whether v is a JSON object whose values are all strings or null. Kubernetes
// decodes the value null as "".
func stringMap(v []byte) bool {
	w := membersOf(v)
	for w.next() {
		if value := w.value.of(v); !isString(value) && !isNull(value) {
			return false
		}
	}
	return !w.failed()
}

// eachJSON calls yield for each entry of b, a JSON object, until yield returns false.
func (m *Meta) eachJSON(b []byte, yield func(key, value []byte) bool) {
	m.entries = m.entries[:0]
	w := membersOf(b)
	for w.next() {
		var key, value []byte
		key, m.entries = textOfRaw(m.entries, w.name)
		if v := w.value.of(b); isString(v) { // null means ""
			value, m.entries = stringText(m.entries, v)
		}
		if !yield(key, value) {
			return
		}
	}
}
