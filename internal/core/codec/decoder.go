package codec

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// protoMessage is implemented by the generated API types.
type protoMessage interface {
	Unmarshal([]byte) error
	Marshal() ([]byte, error)
}

// isMessage reports whether values of type t have their own message, even if t is a slice type.
func isMessage(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[protoMessage]())
}

// decoder decodes the protobuf of one Go type. It is safe for concurrent use.
type decoder struct {
	goType   reflect.Type // the struct type
	typeMeta int          // the index of its TypeMeta, or -1
	tables                // the tables that decode objects; see compile

	members func() []*member // of the struct
	keeper  func() *keeper   // of the struct
}

var decoders sync.Map // *decoder, by the reflect.Type of a pointer to its struct

// decoderFor returns the decoder of t, or nil if t is not a pointer to a struct that is a
// protoMessage. All calls with the same type return the same decoder.
func decoderFor(t reflect.Type) *decoder {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[protoMessage]()) {
		return nil
	}
	if d, ok := decoders.Load(t); ok {
		return d.(*decoder)
	}
	d, _ := decoders.LoadOrStore(t, newDecoder(t.Elem()))
	return d.(*decoder)
}

// newDecoder returns a decoder of the struct type t.
func newDecoder(t reflect.Type) *decoder {
	return &decoder{
		goType:   t,
		typeMeta: typeMetaIndex(t),
		members:  sync.OnceValue(func() []*member { return membersOf(t) }),
		keeper:   sync.OnceValue(func() *keeper { return keepers{}.of(t, false) }),
	}
}

// typeMetaIndex returns the index of a struct's TypeMeta field, or -1 if the struct has no such
// field, or if protobuf encodes the field.
func typeMetaIndex(t reflect.Type) int {
	f, ok := t.FieldByName("TypeMeta")
	if _, encoded := wire.FieldNumber(f); !ok || encoded || len(f.Index) > 1 || f.Type != reflect.TypeFor[metav1.TypeMeta]() {
		return -1
	}
	return f.Index[0]
}

// typeMetaOf returns the apiVersion and kind of a value, or nil if the decoder's struct has none.
// The protobuf message does not contain them, so they are empty after decoding. value must be a
// pointer to the decoder's struct.
func (d *decoder) typeMetaOf(value any) *metav1.TypeMeta {
	if d.typeMeta < 0 {
		return nil
	}
	return reflect.ValueOf(value).Elem().Field(d.typeMeta).Addr().Interface().(*metav1.TypeMeta)
}

// unmarshal decodes raw into a new value and returns a pointer to the value. It does not retain
// raw. The error is the same as the error of the type's Unmarshal.
//
// If sharing is false, the caller may modify the value. If sharing is true, callers must only read
// it: frequent slices, maps and pointers, such as probes, resources and tolerations, are allocated
// once and shared by all values. Metadata is not shared, except for the bytes of managed fields.
func (d *decoder) unmarshal(raw []byte, sharing bool) (any, error) {
	if value, ok := d.decodeByTables(raw, sharing); ok {
		return value, nil
	}
	object := reflect.New(d.goType).Interface()
	if err := object.(protoMessage).Unmarshal(raw); err != nil {
		return nil, err
	}
	return object, nil
}

// maxNumber is the limit for field numbers, and so for the size of the tables.
const maxNumber = 1 << 10

// fieldNumber returns the number of an exported field of a struct. ok is false if the field has no
// number or its number is not below maxNumber.
func fieldNumber(f reflect.StructField) (number int, ok bool) {
	n, _ := wire.FieldNumber(f)
	return int(n), n > 0 && n < maxNumber && f.IsExported()
}

// trusted are the packages whose protobuf tags have the meaning that this package assumes. Tests
// check this meaning for all types in these packages.
var trusted = []string{"k8s.io/api/", "k8s.io/apimachinery/"}

func isTrusted(t reflect.Type) bool {
	return slices.ContainsFunc(trusted, func(prefix string) bool { return strings.HasPrefix(t.PkgPath(), prefix) })
}
