//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// compiler builds a message for one struct type, and for each struct type inside it. A message
// describes the fields of its type. A type may contain itself.
type compiler struct {
	messages map[reflect.Type]*message
	fields   []*field // of all messages
	boxing   map[reflect.Type]bool
	boxes    bool // the current field is in a struct of boxing
}

// message returns the message of a type. If the tables cannot describe the type, ok is false, and
// Unmarshal must decode it.
func (c *compiler) message(t reflect.Type) (*message, bool) {
	if m, ok := c.messages[t]; ok {
		return m, true
	}
	m := &message{}
	c.messages[t] = m
	if !isTrusted(t) {
		return nil, false
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		if _, tagged := wire.FieldNumber(sf); !tagged {
			continue
		}
		number, ok := fieldNumber(sf)
		if !ok || number < len(m.fields) && m.fields[number].kind != none {
			return nil, false
		}
		c.boxes = c.boxing[t]
		f, ok := c.field(sf.Type)
		if !ok {
			return nil, false
		}
		f.offset = sf.Offset
		f.shareable = t != reflect.TypeFor[metav1.ObjectMeta]() && f.isShareable()
		for len(m.fields) <= number {
			m.fields = append(m.fields, field{})
		}
		m.fields[number] = f
	}
	for i := range m.fields { // the fields no longer move
		f := &m.fields[i]
		f.index = uint32(len(c.fields))
		c.fields = append(c.fields, f)
	}
	return m, len(m.fields) > 0
}

// field returns how to decode a field of Go type t.
func (c *compiler) field(t reflect.Type) (f field, ok bool) {
	switch {
	case t.Kind() == reflect.Map:
		f = field{kind: mapping, wireType: protowire.BytesType, goType: t}
		f.setAll, ok = c.mapping(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !isMessage(t):
		f = piece(slice, t)
		ok = c.single(f.of, t.Elem()) && t.Elem().Kind() != reflect.Pointer && f.of.wireType != protowire.Fixed64Type
		f.wireType, f.message = f.of.wireType, f.of.message
	default:
		ok = c.single(&f, t)
	}
	return f, ok
}

// piece returns a field whose value is in a piece, which is a pointer's target or a slice's
// elements (see shape).
func piece(k fieldKind, t reflect.Type) field { return field{kind: k, goType: t, of: &field{}} }

// single sets f for a type t that is not a slice or map, so its value occurs only once in the
// bytes. It tests for types with special encodings first.
func (c *compiler) single(f *field, t reflect.Type) (ok bool) {
	switch {
	case scalar(f, t):
		ok = true
	case t.Kind() == reflect.Pointer:
		*f = piece(pointer, t)
		ok = c.single(f.of, t.Elem()) && t.Elem().Kind() != reflect.Pointer
		if f.box = newBox(f.of); f.box != nil && c.boxes {
			f.kind = boxed
		}
		f.wireType, f.message = f.of.wireType, f.of.message
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		f.kind, f.set, ok = other, setBytes, true
	case t.Kind() == reflect.Struct && hasTags(t):
		f.kind = inside
		f.message, ok = c.message(t)
	case isMessage(t):
		f.kind, f.set, ok = other, unmarshalSetter(t), true
	}
	f.goType, f.size = t, t.Size()
	return ok
}

// scalar sets f for a type without fields. It returns false for other types.
func scalar(f *field, t reflect.Type) bool {
	f.kind, f.wireType = other, protowire.BytesType
	switch t {
	case reflect.TypeFor[metav1.Time]():
		f.set = setTime
		return true
	case reflect.TypeFor[metav1.FieldsV1]():
		f.set = setFieldsV1
		return true
	case reflect.TypeFor[resource.Quantity]():
		f.set = setQuantity
		return true
	}
	switch t.Kind() {
	case reflect.String:
		f.kind = text
	case reflect.Bool:
		f.kind, f.wireType = boolean, protowire.VarintType
	case reflect.Int32, reflect.Uint32:
		f.kind, f.wireType = number32, protowire.VarintType
	case reflect.Int64, reflect.Uint64:
		f.kind, f.wireType = number64, protowire.VarintType
	case reflect.Float64:
		f.kind, f.wireType = number64, protowire.Fixed64Type
	default:
		return false
	}
	return true
}

// mapping returns how to decode a map. Map values that are messages are rare, so the Unmarshal of
// their type decodes them.
func (c *compiler) mapping(t reflect.Type) (set func(*scratch, unsafe.Pointer, []token) bool, ok bool) {
	elem := &field{}
	switch {
	case t.Key().Kind() != reflect.String:
		return nil, false
	case t.Elem().Kind() == reflect.String:
		return setMapOf[string](setText), true
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		return setMapOf[resource.Quantity](setQuantity), true
	case isMessage(t.Elem()):
		return setMap(t, unmarshalSetter(t.Elem())), true
	}
	ok = c.single(elem, t.Elem()) && elem.kind == other
	return setMap(t, elem.set), ok
}

func hasTags(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, tagged := wire.FieldNumber(t.Field(i)); tagged {
			return true
		}
	}
	return false
}
