package wire

import "time"

// protoMetadata is the field of an object's metadata, in every kind that can be listed and watched.
const protoMetadata = 1

// Fields of ObjectMeta.
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

// metaTypes has the wire type plus one of each field of ObjectMeta that is read, and 0 for the
// others.
var metaTypes = [16]uint8{
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

func (m *Meta) readProto(object []byte) error {
	found := false
	var f protoField
	for i := 0; i < len(object); {
		next := f.consume(object, i)
		if next < 0 {
			return fieldError(int64(i), "object", next)
		}
		if f.num == protoMetadata {
			if f.typ != typeBytes {
				return malformed(int64(i), "object: field 1 is not the metadata")
			}
			if found {
				return malformed(int64(i), "object: metadata twice")
			}
			found = true
			if err := m.readProtoMeta(f.bytes, int64(next-len(f.bytes))); err != nil {
				return err
			}
		}
		i = next
	}
	return nil
}

// readProtoMeta reads the ObjectMeta b, which starts at offset.
func (m *Meta) readProtoMeta(b []byte, offset int64) error {
	var seen fieldSet
	var labels, annotations span
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		if next < 0 {
			return fieldError(offset+int64(i), "metadata", next)
		}
		if f.num >= uint32(len(metaTypes)) || metaTypes[f.num] == 0 {
			i = next
			continue
		}
		if f.typ != metaTypes[f.num]-1 {
			return malformedf(offset+int64(i), "metadata: field %d has wire type %d", f.num, f.typ)
		}
		twice := seen.add(f.num)
		ok := true
		switch f.num {
		case protoLabels:
			labels.cover(i, next)
			_, _, ok = protoEntry(f.bytes)
			twice = false
		case protoAnnotations:
			annotations.cover(i, next)
			_, _, ok = protoEntry(f.bytes)
			twice = false
		default:
			ok = m.setProto(&f)
		}
		if twice {
			return malformedf(offset+int64(i), "metadata: field %d twice", f.num)
		}
		if !ok {
			return malformedf(offset+int64(i), "metadata: field %d is malformed inside", f.num)
		}
		i = next
	}
	m.labels, m.annotations = labels.of(b), annotations.of(b)
	return nil
}

// setProto sets the field of m that f has the value of. It reports whether the value is
// well-formed.
func (m *Meta) setProto(f *protoField) (ok bool) {
	switch f.num {
	case protoName:
		m.Name = f.bytes
	case protoNamespace:
		m.Namespace = f.bytes
	case protoUID:
		m.UID = f.bytes
	case protoResourceVersion:
		m.ResourceVersion = f.bytes
	case protoGeneration:
		m.Generation = int64(f.varint)
	case protoCreationTimestamp:
		m.CreationTimestamp, ok = protoTime(f.bytes)
		return ok
	case protoDeletionTimestamp:
		m.DeletionTimestamp, ok = protoTime(f.bytes)
		return ok
	}
	return true
}

// protoTimestamp returns the seconds and nanoseconds of a Time or MicroTime message. To the caller,
// an empty message is no time.
func protoTimestamp(b []byte) (seconds int64, nanos int32, ok bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return 0, 0, false
		}
		if f.num > 2 {
			continue
		}
		if f.typ != typeVarint {
			return 0, 0, false
		}
		if f.num == 1 {
			seconds = int64(f.varint)
		} else {
			nanos = int32(f.varint)
		}
	}
	return seconds, nanos, true
}

// protoTime returns the time of a Time message, which has whole seconds only. It returns the zero
// time for an empty message.
func protoTime(b []byte) (time.Time, bool) {
	seconds, _, ok := protoTimestamp(b)
	if !ok || len(b) == 0 {
		return time.Time{}, ok
	}
	return time.Unix(seconds, 0).UTC(), true
}

// protoEntry returns the key and the value of an entry of a map from strings to strings.
func protoEntry(b []byte) (key, value []byte, ok bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return nil, nil, false
		}
		if f.num > 2 {
			continue
		}
		if f.typ != typeBytes {
			return nil, nil, false
		}
		if f.num == 1 {
			key = f.bytes
		} else {
			value = f.bytes
		}
	}
	return key, value, true
}

// eachProtoEntry calls yield for each entry of the map in field of b, until yield returns false.
func eachProtoEntry(b []byte, field uint32, yield func(key, value []byte) bool) {
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

// lookupProtoEntry returns the value of the last entry in the map field of b whose key is want.
func lookupProtoEntry(b []byte, field uint32, want string) (value []byte, found bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return nil, false
		}
		if f.num != field {
			continue
		}
		if key, v, ok := protoEntry(f.bytes); ok && string(key) == want {
			value, found = v, true
		}
	}
	return value, found
}
