package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Path is a compiled field path, such as spec.nodeName, metadata.labels[app] or
// status.podIPs[*].ip. It is immutable and safe for concurrent use.
//
// A path consists of the fields' JSON names, joined by dots. [key] selects the value of one key of
// a map, and [3] one element of a list. [*] selects all elements of a list, or all values of a map.
// A key with a bracket is quoted: ['a]b'].
//
// A path returns the same values in both encodings: the values that the object's JSON contains. If
// JSON omits an empty field, the path returns no value for that field in protobuf either, although
// the protobuf message contains the field. A string is returned unchanged. A number or boolean is
// returned as JSON writes it, and a time, quantity or int-or-string as its text. If the value at
// the end of a path is null, an object or a list, the path does not return it.
type Path struct {
	text  string
	enc   Encoding
	names []pathStep // the steps in JSON

	// The other fields are for protobuf only.
	steps     []protoStep
	typ       reflect.Type // the type at the end of the path
	format    textFormat
	omitEmpty bool
}

// CompilePath compiles a path. In protobuf, goType must be the API type, a struct or a pointer to a
// struct; its protobuf struct tags give the field numbers. CompilePath returns an error if the type
// has no such field, or if the path ends at an object, a list or a map. It also refuses kind and
// apiVersion, because a protobuf object's bytes do not contain them. In JSON, goType is ignored and
// may be nil, and CompilePath accepts any path that it can parse. The error wraps ErrPath.
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
	p.typ, p.format, p.omitEmpty = elem(end.typ), textOf(end.typ), end.omitEmpty
	if p.format == textNone {
		return nil, fmt.Errorf("%w %q: %v is not a single value", ErrPath, path, end.typ)
	}
	return p, nil
}

// String returns the text that the path was compiled from.
func (p *Path) String() string { return p.text }

// Append appends the values that the path selects in object to dst, in the order in which they
// occur in object. Do not modify the values, because they may alias the object's bytes. The error
// is a *SyntaxError, for example if a field of the path occurs twice; Append then returns dst
// unchanged.
func (p *Path) Append(dst [][]byte, object []byte) ([][]byte, error) {
	was := len(dst)
	var err error
	if p.enc == Protobuf {
		dst, err = p.appendProto(dst, object, 0, p.steps)
	} else {
		dst, _, err = p.appendJSON(dst, object, skipSpace(object, 0), 0, p.names)
	}
	if err != nil {
		return dst[:was], err
	}
	return dst, nil
}

// appendJSON appends the values that the steps select from the value at object[i:]. depth is the
// number of objects and arrays around that value. It returns the index after the value.
func (p *Path) appendJSON(dst [][]byte, object []byte, i, depth int, steps []pathStep) ([][]byte, int, error) {
	isObject := i < len(object) && object[i] == '{'
	if len(steps) == 0 || !isObject && (i >= len(object) || object[i] != '[') {
		end, r := scanValue(object, i, depth)
		if r != scanDone {
			return dst, 0, malformed(int64(end), p.text+": not JSON")
		}
		if len(steps) == 0 {
			dst = appendJSONText(dst, object[i:end:end])
		}
		return dst, end, nil
	}
	step, found := &steps[0], false
	w := jsonWalk{b: object, i: i, depth: depth}
	for n := 0; w.toValue(); n++ {
		switch {
		case step.sel == selectAll:
		case isObject && !nameIs(w.name, step.name), !isObject && (step.sel != selectIndex || n != step.index):
			w.skip()
			continue
		case found:
			return dst, 0, malformedf(int64(w.value.from), "%s: %s twice", p.text, w.name)
		}
		found = true
		var end int
		var err error
		if dst, end, err = p.appendJSON(dst, object, w.value.from, w.depth, steps[1:]); err != nil {
			return dst, 0, err
		}
		w.pass(end, scanDone)
	}
	if w.failed() {
		return dst, 0, malformed(int64(w.i), p.text+": not JSON")
	}
	return dst, w.i, nil
}

// appendJSONText appends the text of v, unless v is an object, a list or null.
func appendJSONText(dst [][]byte, v []byte) [][]byte {
	switch {
	case len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n':
		return dst
	case isString(v):
		text, _ := stringText(nil, v)
		return append(dst, text)
	}
	return append(dst, v)
}

// appendProto appends the values that the steps select from the message b, which starts at offset.
func (p *Path) appendProto(dst [][]byte, b []byte, offset int64, steps []protoStep) ([][]byte, error) {
	step, last := &steps[0], len(steps) == 1
	count := 0
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return dst, fieldError(at, p.text, next)
		}
		i = next
		if f.num != step.num {
			continue
		}
		if f.typ == typeBytes && last && p.format.wireType() != typeBytes && (step.pick == pickAll || step.pick == pickIndex) {
			var ok bool
			if dst, count, ok = p.appendPacked(dst, f.bytes, step, count); !ok {
				return dst, malformed(at, p.text+": a packed list is malformed inside")
			}
			continue
		}
		count++
		value := f
		switch step.pick {
		case pickOne:
			if count > 1 {
				return dst, malformedf(at, "%s: field %d twice", p.text, f.num)
			}
		case pickIndex:
			if count-1 != step.index {
				continue
			}
		case pickKey, pickEntry:
			typ := uint8(typeBytes)
			if last {
				typ = p.format.wireType()
			}
			take, ok := entryValue(&value, typ, step)
			if !ok {
				return dst, malformed(at, p.text+": an entry of a map is malformed inside")
			}
			if !take {
				continue
			}
		}
		var err error
		if dst, err = p.appendProtoField(dst, &value, offset+int64(next-len(f.bytes)), steps); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendProtoField applies the steps after the first to f, a field that the first step selected.
func (p *Path) appendProtoField(dst [][]byte, f *protoField, offset int64, steps []protoStep) ([][]byte, error) {
	if len(steps) > 1 {
		if f.typ != typeBytes {
			return dst, malformedf(offset, "%s: field %d is not a message", p.text, f.num)
		}
		return p.appendProto(dst, f.bytes, offset, steps[1:])
	}
	if f.typ != p.format.wireType() {
		return dst, malformedf(offset, "%s: field %d has wire type %d", p.text, f.num, f.typ)
	}
	if p.omitEmpty && p.format.empty(f) {
		return dst, nil
	}
	dst, ok := p.appendProtoText(dst, f)
	if !ok {
		return dst, malformedf(offset, "%s: field %d is malformed inside", p.text, f.num)
	}
	return dst, nil
}

// appendPacked appends the numbers that step selects from b, one packed part of a list of numbers.
// count is the number of the list's elements before b. appendPacked returns count plus the number
// of elements in b.
func (p *Path) appendPacked(dst [][]byte, b []byte, step *protoStep, count int) ([][]byte, int, bool) {
	for i := 0; i < len(b); count++ {
		var f protoField
		if p.format.wireType() == typeVarint {
			f.varint, i = consumeVarint(b, i)
		} else {
			f.varint, i = consumeFixed64(b, i)
		}
		if i < 0 {
			return dst, count, false
		}
		if step.pick == pickAll || count == step.index {
			var ok bool
			if dst, ok = p.appendProtoText(dst, &f); !ok {
				return dst, count, false
			}
		}
	}
	return dst, count, true
}

// entryValue replaces f, an entry of a map, by the entry's value, whose wire type must be typ. take
// is false if the step selects a different key. ok is false if the entry is malformed.
func entryValue(f *protoField, typ uint8, step *protoStep) (take, ok bool) {
	in := [...]protoField{1: bytesField, 2: {typ: typ}}
	if f.typ != typeBytes || readFields(f.bytes, in[:], "entry", 0) != nil {
		return false, false
	}
	if step.pick == pickKey && string(in[1].bytes) != step.key {
		return false, true
	}
	*f = in[2]
	return true, true
}

// textFormat says how to convert a protobuf value to the text that the value has in JSON.
type textFormat uint8

const (
	textNone textFormat = iota
	textString
	textBytes
	textBool
	textInt32
	textInt64
	textUint
	textDouble
	textMessage // a message that JSON writes as a single value, such as a time
)

var textKinds = map[reflect.Kind]textFormat{
	reflect.String: textString, reflect.Bool: textBool, reflect.Float64: textDouble,
	reflect.Int32: textInt32, reflect.Int: textInt64, reflect.Int64: textInt64,
	reflect.Uint32: textUint, reflect.Uint64: textUint,
}

var textMessages = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true, reflect.TypeFor[metav1.Duration](): true,
	reflect.TypeFor[resource.Quantity](): true, reflect.TypeFor[intstr.IntOrString](): true,
}

// textOf returns the textFormat of a type, or textNone if its values have no text.
func textOf(t reflect.Type) textFormat {
	switch t = elem(t); {
	case textMessages[t]:
		return textMessage
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return textBytes
	}
	return textKinds[t.Kind()]
}

// wireType returns the wire type of values that have this format.
func (tf textFormat) wireType() uint8 {
	switch tf {
	case textBool, textInt32, textInt64, textUint:
		return typeVarint
	case textDouble:
		return typeFixed64
	}
	return typeBytes
}

// empty reports whether JSON's omitempty omits the value.
func (tf textFormat) empty(f *protoField) bool {
	switch tf {
	case textMessage:
		return false
	case textString, textBytes:
		return len(f.bytes) == 0
	case textDouble:
		return math.Float64frombits(f.varint) == 0
	}
	return f.varint == 0
}

// appendProtoText appends the text of a value, unless JSON writes the value as null. ok is false if
// the value is malformed.
func (p *Path) appendProtoText(dst [][]byte, f *protoField) (_ [][]byte, ok bool) {
	var value any
	switch p.format {
	case textString:
		return append(dst, f.bytes), true
	case textBytes:
		value = f.bytes
	case textBool:
		value = f.varint != 0
	case textInt32:
		value = int32(f.varint)
	case textInt64:
		value = int64(f.varint)
	case textUint:
		value = f.varint
	case textDouble:
		value = math.Float64frombits(f.varint)
	case textMessage:
		message := reflect.New(p.typ).Interface().(interface{ Unmarshal([]byte) error })
		if message.Unmarshal(f.bytes) != nil {
			return dst, false
		}
		value = message
	}
	text, err := json.Marshal(value)
	if err != nil {
		return dst, false
	}
	return appendJSONText(dst, text), true
}
