package wire

import (
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wire types of protobuf.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
)

// Negative results that the consume functions return instead of an index.
const (
	protoTruncated = -1
	protoMalformed = -2
)

const maxFieldNumber = uint32(protowire.MaxValidNumber)

// protoField is one field of a message.
type protoField struct {
	num    uint32 // 0 in a result of readFields: the message lacks the field
	typ    uint8
	from   int    // where the field's content starts in the message
	varint uint64 // the value of a typeVarint or typeFixed64
	bytes  []byte // the content of a typeBytes
}

// protoResult returns the index after the field at b[i:], or protoTruncated or protoMalformed. n is
// the length that protowire returned for that field, or its negative error code.
func protoResult(i, n int) int {
	switch {
	case n >= 0:
		return i + n
	case protowire.ParseError(n) == io.ErrUnexpectedEOF:
		return protoTruncated
	}
	return protoMalformed
}

// consumeVarint reads the varint at b[i:]. It returns the index after the varint, or protoTruncated
// or protoMalformed.
func consumeVarint(b []byte, i int) (uint64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return consumeLongVarint(b, i)
}

func consumeLongVarint(b []byte, i int) (uint64, int) {
	v, n := protowire.ConsumeVarint(b[i:])
	return v, protoResult(i, n)
}

func consumeFixed64(b []byte, i int) (uint64, int) {
	v, n := protowire.ConsumeFixed64(b[i:])
	return v, protoResult(i, n)
}

// consume reads the field at b[i:] into f. It returns the index after the field, or protoTruncated
// or protoMalformed. For a 32-bit field or a group, it sets only num, typ and from.
func (f *protoField) consume(b []byte, i int) int {
	tag, i := consumeVarint(b, i)
	if i < 0 {
		return i
	}
	if tag>>3 == 0 || tag>>3 > uint64(maxFieldNumber) {
		return protoMalformed
	}
	f.num, f.typ, f.from = uint32(tag>>3), uint8(tag&7), i
	switch f.typ {
	case typeVarint:
		f.varint, i = consumeVarint(b, i)
		return i
	case typeBytes:
		n, i := consumeVarint(b, i)
		if i < 0 {
			return i
		}
		if n > uint64(len(b)-i) {
			return protoTruncated
		}
		f.from, f.bytes = i, b[i:i+int(n)]
		return i + int(n)
	case typeFixed64:
		f.varint, i = consumeFixed64(b, i)
		return i
	}
	return protoResult(i, protowire.ConsumeFieldValue(protowire.Number(f.num), protowire.Type(f.typ), b[i:]))
}

// readFields reads the message b, which starts at offset in its body. It sets fields[n] to the
// field with number n. It skips fields whose number is not an index of fields. Before the call,
// fields[n].typ must be the wire type that the field must have. If one of these fields occurs
// twice, readFields returns an error. The argument what is the name of the message in errors.
func readFields(b []byte, fields []protoField, what string, offset int64) error {
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return fieldError(at, what, next)
		}
		if i = next; f.num >= uint32(len(fields)) {
			continue
		}
		to := &fields[f.num]
		if err := checkField(f.num, f.typ, to.typ, to.num != 0, what, at); err != nil {
			return err
		}
		*to = f
	}
	return nil
}

// checkField returns an error if the wire type of a field (typ) is not the expected one (want), or
// if the field occurs twice. offset is the field's offset.
func checkField(num uint32, typ, want uint8, twice bool, what string, offset int64) error {
	switch {
	case typ != want:
		return malformedf(offset, "%s: field %d has wire type %d", what, num, typ)
	case twice:
		return malformedf(offset, "%s: field %d twice", what, num)
	}
	return nil
}

// fieldError returns the error for the field at offset. result is the negative result of consume.
func fieldError(offset int64, what string, result int) error {
	if result == protoTruncated {
		return malformed(offset, what+": a field runs beyond its message")
	}
	return malformed(offset, what+": not a protobuf field")
}

// bytesField is an element of the fields argument of readFields. It accepts a field of wire type
// bytes: bytes, a string or a message.
var bytesField = protoField{typ: typeBytes}

func appendTag(dst []byte, num uint32, typ uint8) []byte {
	return binary.AppendUvarint(dst, uint64(num)<<3|uint64(typ))
}

// appendLength appends the tag and the length of a field of n bytes.
func appendLength(dst []byte, num uint32, n int) []byte {
	return binary.AppendUvarint(appendTag(dst, num, typeBytes), uint64(n))
}

func appendBytes[T string | []byte](dst []byte, num uint32, v T) []byte {
	return append(appendLength(dst, num, len(v)), v...)
}

// bytesSize returns the encoded size of a field with n bytes of content, if the field's number is
// below 16.
func bytesSize(n int) int { return 1 + protowire.SizeBytes(n) }

// protoMagic starts every protobuf body of Kubernetes, before a runtime.Unknown.
const protoMagic = "k8s\x00"

// envelopeEnd is an empty content encoding and an empty content type. apimachinery's serializer
// writes both after the object.
const envelopeEnd = "\x1a\x00\x22\x00"

// Field numbers of runtime.Unknown (the envelope), of the TypeMeta in it, of WatchEvent and of
// RawExtension.
const (
	unknownTypeMeta        = 1
	unknownRaw             = 2
	unknownContentEncoding = 3
	unknownContentType     = 4

	typeMetaAPIVersion = 1
	typeMetaKind       = 2

	watchEventType   = 1
	watchEventObject = 2
	rawExtensionRaw  = 1
)

// cutEnvelope returns the object in b, an envelope that starts at offset in its body, and sets tm
// to the object's type. It allocates only if a field of tm changes.
func cutEnvelope(b []byte, offset int64, tm *TypeMeta) (raw []byte, err error) {
	if len(b) < len(protoMagic) || string(b[:len(protoMagic)]) != protoMagic {
		return nil, malformed(offset, `envelope: does not start with k8s\0`)
	}
	b, offset = b[len(protoMagic):], offset+int64(len(protoMagic))
	f := [...]protoField{1: bytesField, 2: bytesField, 3: bytesField, 4: bytesField}
	if err := readFields(b, f[:], "envelope", offset); err != nil {
		return nil, err
	}
	typeMeta, object := &f[unknownTypeMeta], &f[unknownRaw]
	switch {
	case object.num == 0:
		return nil, malformed(offset+int64(len(b)), "envelope: no object")
	case typeMeta.from > object.from:
		return nil, malformed(offset+int64(typeMeta.from), "envelope: typeMeta after the object that it describes")
	}
	for _, field := range f[unknownContentEncoding:] {
		if err := checkContent(field.num, field.bytes, offset+int64(field.from)); err != nil {
			return nil, err
		}
	}
	return object.bytes, tm.readProto(typeMeta.bytes, offset+int64(typeMeta.from))
}

// readProto sets t from b, a TypeMeta that starts at offset.
func (t *TypeMeta) readProto(b []byte, offset int64) error {
	f := [...]protoField{1: bytesField, 2: bytesField}
	err := readFields(b, f[:], "typeMeta", offset)
	if err == nil {
		t.set(f[typeMetaAPIVersion].bytes, f[typeMetaKind].bytes)
	}
	return err
}

func (t *TypeMeta) set(apiVersion, kind []byte) {
	if string(apiVersion) != t.APIVersion {
		t.APIVersion = string(apiVersion)
	}
	if string(kind) != t.Kind {
		t.Kind = string(kind)
	}
}

// checkContent returns an error if the content encoding or content type v says that the object is
// not a plain protobuf message.
func checkContent(num uint32, v []byte, offset int64) error {
	switch {
	case len(v) == 0:
		return nil
	case num == unknownContentEncoding:
		return malformedf(offset, "envelope: content encoding %.40q", v)
	case string(v) != ContentTypeProtobuf:
		return malformedf(offset, "envelope: content type %.80q", v)
	}
	return nil
}

func appendTypeMeta(dst []byte, tm TypeMeta) []byte {
	dst = appendLength(dst, unknownTypeMeta, typeMetaSize(tm))
	dst = appendBytes(dst, typeMetaAPIVersion, tm.APIVersion)
	return appendBytes(dst, typeMetaKind, tm.Kind)
}

func typeMetaSize(tm TypeMeta) int { return bytesSize(len(tm.APIVersion)) + bytesSize(len(tm.Kind)) }

func appendEnvelope(dst []byte, tm TypeMeta, object []byte) []byte {
	dst = appendTypeMeta(append(dst, protoMagic...), tm)
	return append(appendBytes(dst, unknownRaw, object), envelopeEnd...)
}

// envelopeSize returns the size of an object of n bytes with its envelope.
func envelopeSize(tm TypeMeta, n int) int {
	return len(protoMagic) + bytesSize(typeMetaSize(tm)) + bytesSize(n) + len(envelopeEnd)
}
