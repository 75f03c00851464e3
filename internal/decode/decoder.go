package decode

import (
	"reflect"
	"sync"
	"unsafe"
)

// Message is what generated API types can do.
type Message interface {
	Unmarshal([]byte) error
}

// Decoder decodes objects of one Go type. Safe for concurrent use.
type Decoder struct {
	goType  reflect.Type // the struct
	once    sync.Once    // compile
	message *message     // nil: left to Unmarshal
	fields  []*field     // by index: those of the struct, and of all that are inside it
	shapes  shapes
	plans   *plans // from compile on

	keeperOnce sync.Once
	keeper     keeper // from Keeps on
}

var decoders sync.Map // of the struct's reflect.Type to *Decoder: as many as the program has types

// For returns the decoder of a type, which is a pointer to a struct that is a [Message]. There is
// one for each type; nil for any other.
func For(t reflect.Type) *Decoder {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[Message]()) {
		return nil
	}
	if d, ok := decoders.Load(t); ok {
		return d.(*Decoder)
	}
	d, _ := decoders.LoadOrStore(t, &Decoder{goType: t.Elem()})
	return d.(*Decoder)
}

// compile makes the tables, some 200 KB for a pod, when the first object is decoded: many informers
// never decode one.
func (d *Decoder) compile() {
	c := compiler{messages: map[reflect.Type]*message{}, boxing: boxing(d.goType)}
	if m, ok := c.message(d.goType); ok && len(c.fields) < maxFields { // else something is out of the ordinary
		d.message, d.fields, d.plans = m, c.fields, new(plans)
	}
}

func (d *Decoder) tokenize(s *scratch, raw []byte) bool {
	s.raw, s.fields, s.making, s.print, s.odd = raw, d.fields, -1, 0, false
	return len(raw) <= maxSize && d.message.tokenize(s, 0, len(raw), maxDepth)
}

// Decode returns a new value, a pointer to the struct, made of its bytes. It keeps nothing of raw,
// and the value is the caller's to change. The error is that of the type's Unmarshal.
func (d *Decoder) Decode(raw []byte) (any, error) { return d.value(raw, false, nil) }

// DecodeShared is Decode for values that nobody changes: slices, maps and pointers that come again
// and again, such as probes, resources and tolerations, are made once, and all values have the same
// ones. Metadata is each value's own, but for the bytes of managed fields.
func (d *Decoder) DecodeShared(raw []byte) (any, error) { return d.value(raw, true, nil) }

// DecodeOver is DecodeShared for a value that is not zero at first, but what prepare makes of it. A
// field that raw has must be zero, or what raw says is added to it.
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

// allocate makes memory for the object, with that of its slices and pointers if there is a shape
// for them.
func (d *Decoder) allocate(s *scratch) unsafe.Pointer {
	if s.shape = d.shapes.find(d.goType, s); s.shape != nil {
		s.image = reflect.New(s.shape.goType).UnsafePointer()
	} else {
		s.image = reflect.New(d.goType).UnsafePointer()
	}
	return s.image
}
