package decode

import (
	"reflect"
	"sync"
	"unsafe"

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
	once     sync.Once    // compile
	message  *message     // nil: objects are left to Unmarshal
	fields   []*field     // by index: the fields of the struct and of all structs in it
	shapes   shapes
	plans    *plans // set by compile

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

// compile builds the tables, some 200 KB for a pod. It runs when the first object is decoded,
// because many informers never decode one.
func (d *Decoder) compile() {
	c := compiler{messages: map[reflect.Type]*message{}, boxing: boxing(d.goType)}
	if m, ok := c.message(d.goType); ok && len(c.fields) < maxFields { // else the type is unusual
		d.message, d.fields, d.plans = m, c.fields, new(plans)
		for i := range m.fields {
			if f := &m.fields[i]; f.kind == inside {
				f.clone = clonerOf(f.goType)
			}
		}
	}
}

func (d *Decoder) tokenize(s *scratch, raw []byte) bool {
	s.raw, s.fields, s.making, s.print, s.unusual = raw, d.fields, -1, 0, false
	return len(raw) <= maxSize && d.message.tokenize(s, 0, len(raw), maxDepth)
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
	if d.once.Do(d.compile); d.message != nil {
		s := scratches.Get().(*scratch)
		s.sharing, s.prepare = sharing, prepare
		p, ok := d.decode(s, raw)
		s.release()
		if ok {
			return reflect.NewAt(d.goType, p).Interface(), nil
		}
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

func (d *Decoder) decode(s *scratch, raw []byte) (unsafe.Pointer, bool) {
	private := !s.sharing && s.prepare == nil
	if private {
		if image, ok := d.decodeLikeOthers(s, raw); ok {
			return image, true
		}
	}
	if !d.tokenize(s, raw) {
		return nil, false
	}
	if private {
		return d.decodeByPlan(s)
	}
	d.allocate(s)
	if s.prepare != nil {
		s.prepare(reflect.NewAt(d.goType, s.image).Interface())
	}
	return s.image, s.decode(s.image, s.tokens)
}

// allocate returns memory for the object. If its shape is known, that includes memory for its
// slices and pointers.
func (d *Decoder) allocate(s *scratch) unsafe.Pointer {
	if s.shape = d.shapes.find(d.goType, s); s.shape != nil {
		s.image = reflect.New(s.shape.goType).UnsafePointer()
	} else {
		s.image = reflect.New(d.goType).UnsafePointer()
	}
	return s.image
}
