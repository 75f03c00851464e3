package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ErrPath is wrapped by the errors of CompilePath and CompileDrop.
var ErrPath = errors.New("bad field path")

// selector says how a step of a path selects values.
type selector uint8

const (
	selectName  selector = iota // .name
	selectKey                   // [key]
	selectIndex                 // [3]: an element of a list, or in a map or a JSON object the key 3
	selectAll                   // [*]
)

// pathStep is one step of a parsed path.
type pathStep struct {
	sel   selector
	name  string // of selectName, selectKey and selectIndex
	index int    // of selectIndex
}

func (s pathStep) String() string {
	switch s.sel {
	case selectName:
		return "." + s.name
	case selectAll:
		return "[*]"
	}
	return "[" + s.name + "]"
}

// parsePath splits a path into steps. It accepts a leading dot, because the selectableFields of a
// CustomResourceDefinition have one.
func parsePath(path string) ([]pathStep, error) {
	var steps []pathStep
	rest := strings.TrimPrefix(path, ".")
	for first := true; rest != "" || first; first = false {
		var s pathStep
		var ok bool
		switch {
		case strings.HasPrefix(rest, "["):
			s, rest, ok = parseBracket(rest)
		case first:
			s, rest, ok = parseName(rest)
		case rest[0] == '.':
			s, rest, ok = parseName(rest[1:])
		}
		if !ok {
			return nil, fmt.Errorf("%w %q: at %q", ErrPath, path, rest)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func parseName(s string) (step pathStep, rest string, ok bool) {
	end := strings.IndexAny(s, ".[]")
	if end < 0 {
		end = len(s)
	}
	return pathStep{name: s[:end]}, s[end:], end > 0
}

func parseBracket(s string) (step pathStep, rest string, ok bool) {
	in := s[1:]
	if in != "" && (in[0] == '\'' || in[0] == '"') {
		end := strings.Index(in[1:], in[:1]+"]")
		if end < 0 {
			return step, s, false
		}
		return pathStep{sel: selectKey, name: in[1 : end+1]}, in[end+3:], true
	}
	end := strings.IndexByte(in, ']')
	if end <= 0 {
		return step, s, false
	}
	step, rest = pathStep{sel: selectKey, name: in[:end]}, in[end+1:]
	if step.name == "*" {
		step.sel = selectAll
	} else if n, err := strconv.ParseUint(step.name, 10, 31); err == nil {
		step.sel, step.index = selectIndex, int(n)
	}
	return step, rest, true
}

// protoStep is one step of a path through protobuf messages. It selects some or all occurrences of
// one field.
type protoStep struct {
	num   uint32
	pick  protoPick
	key   string // pickKey
	index int    // pickIndex
}

// protoPick says which occurrences of a field a step selects.
type protoPick uint8

const (
	pickOne   protoPick = iota // the only occurrence
	pickAll                    // every element of a list
	pickIndex                  // the element of a list at index
	pickKey                    // the entry of a map whose key is key
	pickEntry                  // every entry of a map
)

// fieldType is the type of the field at the end of a path.
type fieldType struct {
	typ       reflect.Type
	omitEmpty bool // JSON omits the field if it is empty
}

var marshalerType = reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()

// elem removes all pointers from a type: it returns T for **T.
func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// wrappedItems is the field number of the elements in the message that encodes a named slice type,
// such as ExtraValue of the authentication API.
const wrappedItems = 1

// resolvePath returns the protobuf steps of a path through goType, and the type at the end of the
// path.
func resolvePath(goType reflect.Type, path string) ([]protoStep, fieldType, error) {
	written, err := parsePath(path)
	if err != nil {
		return nil, fieldType{}, err
	}
	if goType == nil {
		return nil, fieldType{}, fmt.Errorf("%w %q: no Go type to take field numbers from", ErrPath, path)
	}
	var steps []protoStep
	at := fieldType{typ: goType}
	for i, s := range written {
		more, next, why := resolveStep(at.typ, s)
		if why != "" {
			return nil, at, fmt.Errorf("%w %q: %s at step %d, %s", ErrPath, path, why, i+1, s)
		}
		steps, at = mergeList(steps, more), next
	}
	return steps, at, nil
}

// mergeList appends the steps of more to steps. The argument more may be a single step without a
// field number, which selects elements of the list or map that the last step in steps reached. Then
// this single step replaces the last step in steps, and gets the field number of the replaced step.
func mergeList(steps, more []protoStep) []protoStep {
	if len(more) == 1 && more[0].num == 0 {
		last := len(steps) - 1
		more[0].num = steps[last].num
		return append(steps[:last], more[0])
	}
	return append(steps, more...)
}

// resolveStep resolves the step s from type t. The result why is the reason if that is impossible,
// and otherwise empty.
func resolveStep(t reflect.Type, s pathStep) (steps []protoStep, next fieldType, why string) {
	switch t = elem(t); t.Kind() {
	case reflect.Struct:
		if s.sel != selectName {
			return nil, next, "an object has only named fields"
		}
		steps, next, ok := structField(t, s.name)
		if !ok {
			return nil, next, t.String() + " has no such field in protobuf"
		}
		return steps, next, ""
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, next, "keys are not strings"
		}
		next = fieldType{typ: t.Elem()}
		if s.sel == selectAll {
			return []protoStep{{pick: pickEntry}}, next, ""
		}
		return []protoStep{{pick: pickKey, key: s.name}}, next, ""
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil, next, "bytes have no elements"
		}
		step := protoStep{pick: pickAll}
		if isWrapped(t) {
			step.num = wrappedItems
		}
		next = fieldType{typ: t.Elem()}
		switch s.sel {
		case selectAll:
			return []protoStep{step}, next, ""
		case selectIndex:
			step.pick, step.index = pickIndex, s.index
			return []protoStep{step}, next, ""
		}
		return nil, next, "a list has only elements"
	}
	return nil, next, "nothing can be inside " + t.String()
}

// isWrapped reports whether protobuf encodes the elements of a slice type in a separate message.
func isWrapped(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && reflect.PointerTo(t).Implements(marshalerType)
}

// structField finds a field by its JSON name. For a field of an inlined struct it returns two
// steps, because the inlined struct is a separate message in protobuf.
func structField(t reflect.Type, name string) ([]protoStep, fieldType, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		num, _ := FieldNumber(f)
		jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inline := jsonName == "" && (f.Anonymous || strings.Contains(options, "inline"))
		switch {
		case num == 0:
		case inline && f.Type.Kind() == reflect.Struct:
			if steps, next, ok := structField(f.Type, name); ok {
				return append([]protoStep{{num: num}}, steps...), next, true
			}
		case jsonName == name:
			omit := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
			return []protoStep{{num: num}}, fieldType{f.Type, omit && f.Type.Kind() != reflect.Pointer}, true
		}
	}
	return nil, fieldType{}, false
}

// FieldNumber returns the number in the protobuf tag of a struct's field, such as 1 of
// "bytes,1,opt,name=metadata". num is 0 if the tag has no valid number. tagged is false if the
// field has no protobuf tag or its tag is "-". Callers should use only the number, because other
// parts of a tag may be wrong. For example, some tags of numbers say bytes.
func FieldNumber(f reflect.StructField) (num uint32, tagged bool) {
	tag, ok := f.Tag.Lookup("protobuf")
	if !ok || tag == "-" {
		return 0, false
	}
	_, rest, _ := strings.Cut(tag, ",")
	text, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(text, 10, 29)
	if err != nil {
		return 0, true
	}
	return uint32(n), true
}
