package wire

import (
	"fmt"
	"reflect"
)

// Path is a compiled field path, such as spec.nodeName, metadata.labels[app] or
// status.podIPs[*].ip. It is immutable and safe for concurrent use.
//
// A path has the names of fields in JSON, joined by dots. [key] selects one key of a map, [3] one
// element of a list, and [*] all elements of a list or all values of a map. A key with a bracket is
// quoted: ['a]b'].
//
// A path reads what the object's JSON has there, in both encodings. A field that JSON omits because
// it is empty therefore has no value in protobuf either, although its bytes are there. A string is
// returned as it is, a number or boolean as JSON writes it, and a time, quantity or int-or-string
// as its text. null, objects and lists are no values.
type Path struct {
	text  string
	enc   Encoding
	names []pathStep // JSON only

	// Protobuf only.
	steps     []protoStep
	format    textFormat
	omitEmpty bool
}

// CompilePath compiles a path. In protobuf, goType must be the API type, a struct or a pointer to
// one; its protobuf struct tags give the field numbers. A path that the type does not have, or that
// ends at something without a text, is an error. So are kind and apiVersion, which are not in an
// object's bytes. In JSON, goType is ignored and may be nil, and any path that can be parsed is
// accepted. The error wraps ErrPath.
func CompilePath(enc Encoding, goType reflect.Type, path string) (*Path, error) {
	p := &Path{text: path, enc: enc}
	var err error
	if enc != Protobuf {
		p.names, err = parsePath(path)
		return p, err
	}
	var end fieldType
	if p.steps, end, err = resolvePath(goType, path); err != nil {
		return nil, err
	}
	p.format, p.omitEmpty = textOf(end.typ), end.omitEmpty
	if p.format == textNone {
		return nil, fmt.Errorf("%w %q: %v is not a single value", ErrPath, path, end.typ)
	}
	return p, nil
}

// String returns the path as it was given.
func (p *Path) String() string { return p.text }

// Append appends the values found in object to dst, in their order in object. Do not modify the
// values: those that are in the object's bytes as text alias them. The error is a *SyntaxError,
// also if a field on the way occurs twice; dst is then returned unchanged.
func (p *Path) Append(dst [][]byte, object []byte) ([][]byte, error) {
	was := len(dst)
	var err error
	if p.enc == Protobuf {
		dst, err = p.appendProto(dst, object, 0, p.steps)
	} else {
		from := skipSpace(object, 0)
		dst, err = p.appendJSON(dst, object, span{from, len(object)}, p.names)
	}
	if err != nil {
		return dst[:was], err
	}
	return dst, nil
}
