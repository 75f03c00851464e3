package codec

import (
	"reflect"
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

// decoder decodes the protobuf of one Go type. It is safe for concurrent use.
type decoder struct {
	goType   reflect.Type // the struct
	typeMeta int          // the index of its TypeMeta, or -1
	tables                // by which objects are decoded

	lossyOnce sync.Once
	lossy     lossy // set by the first call of keeps
}

var decoders sync.Map // of the struct's reflect.Type to *decoder: as many as the program has types

// decoderFor returns the decoder of t, or nil if t is not a pointer to a struct that is a
// protoMessage. All calls with the same type return the same decoder.
func decoderFor(t reflect.Type) *decoder {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[protoMessage]()) {
		return nil
	}
	if d, ok := decoders.Load(t); ok {
		return d.(*decoder)
	}
	d, _ := decoders.LoadOrStore(t, &decoder{goType: t.Elem(), typeMeta: typeMetaIndex(t.Elem())})
	return d.(*decoder)
}

// typeMetaIndex returns the index of a struct's TypeMeta, or -1 if it has none, or one that is
// encoded.
func typeMetaIndex(t reflect.Type) int {
	f, ok := t.FieldByName("TypeMeta")
	if _, encoded := wire.FieldNumber(f); !ok || encoded || len(f.Index) > 1 || f.Type != reflect.TypeFor[metav1.TypeMeta]() {
		return -1
	}
	return f.Index[0]
}

// typeMetaOf returns the apiVersion and kind of a value, a pointer to the decoder's struct, or nil
// if the struct has none. The encoding has no room for them: what is decoded has none.
func (d *decoder) typeMetaOf(value any) *metav1.TypeMeta {
	if d.typeMeta < 0 {
		return nil
	}
	return reflect.ValueOf(value).Elem().Field(d.typeMeta).Addr().Interface().(*metav1.TypeMeta)
}

// unmarshal decodes raw into a new value and returns a pointer to it. It keeps nothing of raw. The
// error is that of the type's Unmarshal.
//
// Without sharing, the caller may modify the value. With sharing, callers only read it: slices,
// maps and pointers that occur often, such as probes, resources and tolerations, are allocated once
// and shared by all values. Metadata is not shared, except for the bytes of managed fields.
//
// prepare initializes the value; nil leaves it zero. The fields that raw sets must be zero
// afterwards: otherwise the values of raw are added to them.
func (d *decoder) unmarshal(raw []byte, sharing bool, prepare func(value any)) (any, error) {
	if value, ok := d.decodeByTables(raw, sharing, prepare); ok {
		return value, nil
	}
	object := reflect.New(d.goType).Interface()
	if prepare != nil {
		prepare(object)
	}
	if err := object.(protoMessage).Unmarshal(raw); err != nil {
		return nil, err
	}
	return object, nil
}

// maxNumber bounds the numbers of fields, and so the tables.
const maxNumber = 1 << 10

// fieldNumber returns the field number of an exported field of a struct. ok is false if it has
// none, or one of maxNumber or more.
func fieldNumber(f reflect.StructField) (number int, ok bool) {
	n, _ := wire.FieldNumber(f)
	return int(n), n > 0 && n < maxNumber && f.IsExported()
}

// trusted are the packages whose protobuf tags have the meaning that this package assumes. Tests
// compare all of their types.
var trusted = []string{"k8s.io/api/", "k8s.io/apimachinery/"}

func isTrusted(t reflect.Type) bool {
	for _, prefix := range trusted {
		if strings.HasPrefix(t.PkgPath(), prefix) {
			return true
		}
	}
	return false
}
