package wire

// protoMagic starts every protobuf body of Kubernetes, before a runtime.Unknown.
const protoMagic = "k8s\x00"

// Fields of runtime.Unknown and of the messages around it.
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

// envelope is the parsed form of a runtime.Unknown.
type envelope struct {
	apiVersion, kind []byte
	raw              []byte
}

// cut parses the envelope in b, which starts at offset in the body.
func (e *envelope) cut(b []byte, offset int64) error {
	if len(b) < len(protoMagic) || string(b[:len(protoMagic)]) != protoMagic {
		return malformed(offset, `envelope: does not start with k8s\0`)
	}
	*e = envelope{}
	var seen fieldSet
	var f protoField
	for i := len(protoMagic); i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return fieldError(at, "envelope", next)
		}
		if f.num <= unknownContentType {
			if err := seen.check(f.num, f.typ, typeBytes, "envelope", at); err != nil {
				return err
			}
		}
		switch f.num {
		case unknownTypeMeta:
			if seen.has(unknownRaw) {
				return malformed(at, "envelope: typeMeta behind the object that it describes")
			}
			if err := e.cutTypeMeta(f.bytes, offset+int64(next-len(f.bytes))); err != nil {
				return err
			}
		case unknownRaw:
			e.raw = f.bytes
		case unknownContentEncoding, unknownContentType:
			if err := checkContent(f.num, f.bytes, at); err != nil {
				return err
			}
		}
		i = next
	}
	if !seen.has(unknownRaw) {
		return malformed(offset+int64(len(b)), "envelope: no object")
	}
	return nil
}

func (e *envelope) cutTypeMeta(b []byte, offset int64) error {
	var seen fieldSet
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return fieldError(at, "typeMeta", next)
		}
		if f.num <= typeMetaKind {
			if err := seen.check(f.num, f.typ, typeBytes, "typeMeta", at); err != nil {
				return err
			}
		}
		switch f.num {
		case typeMetaAPIVersion:
			e.apiVersion = f.bytes
		case typeMetaKind:
			e.kind = f.bytes
		}
		i = next
	}
	return nil
}

// checkContent returns an error if the content encoding or content type says that the bytes are not
// a plain protobuf message.
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

// set sets both fields of t. It allocates only if a field changes.
func (t *TypeMeta) set(apiVersion, kind []byte) {
	if string(apiVersion) != t.APIVersion {
		t.APIVersion = string(apiVersion)
	}
	if string(kind) != t.Kind {
		t.Kind = string(kind)
	}
}

// fieldSet is a set of field numbers below 64.
type fieldSet uint64

func (s fieldSet) has(num uint32) bool { return s&(1<<num) != 0 }

// add adds num and reports whether it was there.
func (s *fieldSet) add(num uint32) bool {
	was := s.has(num)
	*s |= 1 << num
	return was
}

// check adds the number of a field at offset. It returns an error if the field's wire type is not
// want, or if the number was there.
func (s *fieldSet) check(num uint32, typ, want uint8, what string, offset int64) error {
	if typ != want {
		return malformedf(offset, "%s: field %d has wire type %d", what, num, typ)
	}
	if s.add(num) {
		return malformedf(offset, "%s: field %d twice", what, num)
	}
	return nil
}
