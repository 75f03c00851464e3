package wire

import (
	"fmt"
	"reflect"
)

// Path is a compiled field path, such as spec.nodeName, metadata.labels[app] or
// status.podIPs[*].ip. It is immutable and safe for concurrent use.
//
// A path is names as they stand in JSON, joined by dots; [key] is one key of a map, [3] one element
// of a list, [*] all elements of a list or all values of a map. A key that holds a bracket is put
// in quotes: ['a]b'].
//
// What a path reads is what the object's JSON form holds there, whatever the encoding: so a field
// that JSON leaves out because it is empty has no value in protobuf either, although its bytes are
// there. Strings come as they are, numbers and booleans as JSON writes them, times, quantities and
// int-or-strings as their text. null is no value, and so is an object or a list.
type Path struct {
	text  string
	enc   Encoding
	names []pathStep // JSON

	// Protobuf:
	steps     []protoStep
	kind      textKind
	omitEmpty bool
}

// CompilePath compiles a path. In protobuf goType is the API type (a struct, or a pointer to one)
// whose protobuf struct tags give the field numbers, and a path that the type does not have, or
// that ends at something without a text, is an error; kind and apiVersion are not in an object's
// bytes there. In JSON goType is not looked at and may be nil, and what a path names need not be
// anywhere. The error wraps ErrPath.
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
	p.kind, p.omitEmpty = textOf(end.typ), end.omitEmpty
	if p.kind == textNone {
		return nil, fmt.Errorf("%w %q: %v is not a single value", ErrPath, path, end.typ)
	}
	return p, nil
}

// String returns the path as it was given.
func (p *Path) String() string { return p.text }

// Append appends the values found in object to dst, in the order in which they stand there; none if
// there is none. A value aliases the object's bytes where it stands there as text; otherwise it is
// memory of its own. An error is a *SyntaxError, also if a field on the way is there twice; dst is
// then returned as it was given.
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
