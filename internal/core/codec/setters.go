//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func setText(s *scratch, p unsafe.Pointer, b []byte) bool {
	*(*string)(p) = s.text(b)
	return true
}

// setBytes sets a byte slice. If b is empty, it sets an empty slice, not nil, as Unmarshal does.
func setBytes(_ *scratch, p unsafe.Pointer, b []byte) bool {
	*(*[]byte)(p) = append(make([]byte, 0, len(b)), b...)
	return true
}

// unmarshalSetter returns a setter that calls the type's own Unmarshal. If t is a slice type and
// the bytes contain no elements, the setter sets an empty slice, not nil.
func unmarshalSetter(t reflect.Type) setter {
	return func(s *scratch, p unsafe.Pointer, b []byte) bool {
		target := reflect.NewAt(t, p)
		target.Elem().SetZero() // the value may be a copy of the template's value
		if t.Kind() == reflect.Slice {
			target.Elem().Set(reflect.MakeSlice(t, 0, 0))
		}
		return target.Interface().(protoMessage).Unmarshal(b) == nil
	}
}

// setTime sets a metav1.Time. It is a faster unmarshalSetter.
func setTime(_ *scratch, p unsafe.Pointer, b []byte) bool {
	return (*metav1.Time)(p).Unmarshal(b) == nil
}

// only takes a message that contains nothing but field 1, and returns the content of that field.
// For any other message, ok is false.
func only(raw []byte) ([]byte, bool) {
	const tag = 1<<3 | byte(protowire.BytesType)
	if len(raw) == 0 || raw[0] != tag {
		return nil, false
	}
	b, n := block(raw[1:])
	return b, n >= 0 && n == len(raw)-1
}

func setQuantity(s *scratch, p unsafe.Pointer, b []byte) bool {
	text, ok := only(b)
	if !ok {
		return false
	}
	held := &s.quantities[hashOf(text)%uint64(len(s.quantities))]
	if held.text != string(text) || len(text) == 0 {
		q, err := resource.ParseQuantity(s.text(text))
		if err != nil {
			return false
		}
		if hasPointer(&q) {
			*(*resource.Quantity)(p) = q
			return true
		}
		held.text, held.is = s.text(text), q
	}
	*(*resource.Quantity)(p) = held.is
	return true
}

// hasPointer reports whether a quantity contains a big.Int, because it is too large or too precise
// for an int64 and a scale. Copies of such a quantity would share the big.Int.
func hasPointer(q *resource.Quantity) bool {
	return !reflect.ValueOf(q).Elem().FieldByName("d").Field(0).IsNil()
}

func setFieldsV1(s *scratch, p unsafe.Pointer, b []byte) bool {
	if len(b) == 0 {
		*(*metav1.FieldsV1)(p) = metav1.FieldsV1{}
		return true
	}
	text, ok := only(b)
	if ok {
		*(*metav1.FieldsV1)(p) = s.managedFields(b, text)
	}
	return ok
}
