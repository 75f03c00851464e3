package decode

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// Message is implemented by the generated API types.
type Message interface {
	Unmarshal([]byte) error
}

// Decoder decodes objects of one Go type. It is safe for concurrent use.
type Decoder struct {
	goType   reflect.Type // the struct
	typeMeta int          // the index of its TypeMeta, or -1
	tables                // by which objects are decoded

	keeperOnce sync.Once
	keeper     keeper // set by the first Keeps
}

var decoders sync.Map // of the struct's reflect.Type to *Decoder: as many as the program has types

// For returns the decoder of t, or nil if t is not a pointer to a struct that is a [Message]. All
// calls with the same type return the same decoder.
func For(t reflect.Type) *Decoder {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[Message]()) {
		return nil
	}
	if d, ok := decoders.Load(t); ok {
		return d.(*Decoder)
	}
	d, _ := decoders.LoadOrStore(t, &Decoder{goType: t.Elem(), typeMeta: typeMetaIndex(t.Elem())})
	return d.(*Decoder)
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

// TypeMeta returns the apiVersion and kind of a value, a pointer to the decoder's struct, or nil if
// the struct has none. The encoding has no room for them: what is decoded has none.
func (d *Decoder) TypeMeta(value any) *metav1.TypeMeta {
	if d.typeMeta < 0 {
		return nil
	}
	return reflect.ValueOf(value).Elem().Field(d.typeMeta).Addr().Interface().(*metav1.TypeMeta)
}

// Decode decodes raw into a new value and returns a pointer to it. It keeps nothing of raw. The
// caller may modify the value. The error is that of the type's Unmarshal.
func (d *Decoder) Decode(raw []byte) (any, error) { return d.value(raw, false, nil) }

// DecodeShared decodes raw as Decode does, for callers that do not modify the value. Slices, maps
// and pointers that occur often, such as probes, resources and tolerations, are allocated once and
// shared by all values. Metadata is not shared, except for the bytes of managed fields.
func (d *Decoder) DecodeShared(raw []byte) (any, error) { return d.value(raw, true, nil) }

// DecodeOver decodes raw as DecodeShared does, into a value that prepare initializes. The fields
// that raw sets must be zero after prepare; otherwise the values of raw are added to them.
func (d *Decoder) DecodeOver(raw []byte, prepare func(value any)) (any, error) {
	return d.value(raw, true, prepare)
}

func (d *Decoder) value(raw []byte, sharing bool, prepare func(value any)) (any, error) {
	if value, ok := d.decodeByTables(raw, sharing, prepare); ok {
		return value, nil
	}
	object := reflect.New(d.goType).Interface()
	if prepare != nil {
		prepare(object)
	}
	if err := object.(Message).Unmarshal(raw); err != nil {
		return nil, err
	}
	return object, nil
}

// DecodeVersions decodes two versions of an object like [Decoder.Decode]. It costs less than two
// calls, because the later version is usually copied from the earlier one. The two values share
// only strings.
func (d *Decoder) DecodeVersions(was, is []byte) (old, fresh any, err error) {
	if old, fresh, ok := d.decodeVersionsByTables(was, is); ok {
		return old, fresh, nil
	}
	if old, err = d.Decode(was); err == nil {
		fresh, err = d.Decode(is)
	}
	return old, fresh, err
}

// maxNumber bounds the numbers of fields, and so the tables.
const maxNumber = 1 << 10

// FieldNumber returns the field number of an exported field of a struct. ok is false if it has
// none, or one of maxNumber or more.
func FieldNumber(f reflect.StructField) (number int, ok bool) {
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
