package wire

import "encoding/binary"

// envelopeEnd is the empty content encoding and content type that apimachinery's serializer writes
// after the object.
const envelopeEnd = "\x1a\x00\x22\x00"

// AppendObject appends the body of a GET answer: in protobuf the object in its envelope, in JSON
// the object with the kind and the apiVersion of tm in front, each unless the object has its own.
func AppendObject(dst []byte, enc Encoding, tm TypeMeta, object []byte) []byte {
	if enc == Protobuf {
		return appendEnvelope(dst, tm, object)
	}
	return appendJSONObject(dst, tm, object)
}

// CutObject returns the type and the bytes of the object in the body of a POST or PUT. The bytes
// alias body. JSON is checked in full. The error is a *SyntaxError.
func CutObject(enc Encoding, body []byte) (TypeMeta, []byte, error) {
	if enc == Protobuf {
		var tm TypeMeta
		var e envelope
		if err := e.cut(body, 0); err != nil {
			return tm, nil, err
		}
		tm.set(e.apiVersion, e.kind)
		return tm, e.raw, nil
	}
	return cutJSONObject(body)
}

// AppendWithResourceVersion appends object with rv as its metadata.resourceVersion. dst must not
// overlap object. The error is a *SyntaxError; dst is then returned unchanged.
func AppendWithResourceVersion(dst []byte, enc Encoding, object []byte, rv string) ([]byte, error) {
	if enc == Protobuf {
		return appendProtoVersion(dst, object, rv)
	}
	return appendJSONVersion(dst, object, rv)
}

func appendTypeMeta(dst []byte, tm TypeMeta) []byte {
	dst = appendTag(dst, unknownTypeMeta, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(bytesSize(len(tm.APIVersion))+bytesSize(len(tm.Kind))))
	dst = appendBytes(dst, typeMetaAPIVersion, tm.APIVersion)
	return appendBytes(dst, typeMetaKind, tm.Kind)
}

func appendEnvelope(dst []byte, tm TypeMeta, object []byte) []byte {
	dst = append(dst, protoMagic...)
	dst = appendTypeMeta(dst, tm)
	dst = appendBytes(dst, unknownRaw, object)
	return append(dst, envelopeEnd...)
}

// envelopeSize returns the size of an object of n bytes with its envelope.
func envelopeSize(tm TypeMeta, n int) int {
	typeMeta := bytesSize(len(tm.APIVersion)) + bytesSize(len(tm.Kind))
	return len(protoMagic) + bytesSize(typeMeta) + bytesSize(n) + len(envelopeEnd)
}

// bytesSize returns the size of a field with n bytes of content and a number below 16.
func bytesSize(n int) int { return 1 + varintSize(uint64(n)) + n }

// appendProtoVersion keeps the fields in the order of their numbers, so the result is what
// marshalling the changed object gives. An object without metadata gets it at its end.
func appendProtoVersion(dst, object []byte, rv string) ([]byte, error) {
	was := len(dst)
	found := false
	var f protoField
	for i := 0; i < len(object); {
		next := f.consume(object, i)
		if next < 0 {
			return dst[:was], fieldError(int64(i), "object", next)
		}
		if f.num != protoMetadata {
			dst = append(dst, object[i:next]...)
			i = next
			continue
		}
		if f.typ != typeBytes || found {
			return dst[:was], malformed(int64(i), "object: field 1 is not one message of metadata")
		}
		found = true
		var err error
		if dst, err = appendMetaVersion(dst, f.bytes, int64(next-len(f.bytes)), rv); err != nil {
			return dst[:was], err
		}
		i = next
	}
	if !found {
		dst = appendTag(dst, protoMetadata, typeBytes)
		dst = binary.AppendUvarint(dst, uint64(bytesSize(len(rv))))
		dst = appendBytes(dst, protoResourceVersion, rv)
	}
	return dst, nil
}

// appendMetaVersion appends the metadata field, with rv as its resourceVersion.
func appendMetaVersion(dst, meta []byte, offset int64, rv string) ([]byte, error) {
	from, to := -1, len(meta)
	var f protoField
	for i := 0; i < len(meta); {
		next := f.consume(meta, i)
		switch {
		case next < 0:
			return dst, fieldError(offset+int64(i), "metadata", next)
		case f.num == protoResourceVersion && (f.typ != typeBytes || from >= 0 && to > from):
			return dst, malformed(offset+int64(i), "metadata: resourceVersion is not one string")
		case f.num == protoResourceVersion:
			from, to = i, next
		case f.num > protoResourceVersion && from < 0:
			from, to = i, i
		}
		i = next
	}
	if from < 0 {
		from = len(meta)
	}
	dst = appendTag(dst, protoMetadata, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(len(meta)-(to-from)+bytesSize(len(rv))))
	dst = append(dst, meta[:from]...)
	dst = appendBytes(dst, protoResourceVersion, rv)
	return append(dst, meta[to:]...), nil
}
