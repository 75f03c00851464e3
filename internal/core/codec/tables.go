//go:build !weir_safe

package codec

import (
	"reflect"
	"sync"
	"unsafe"
)

// tables are compiled from a Go type. They describe how to decode objects of the type without
// generated code.
type tables struct {
	once      sync.Once // runs compile
	message   *message  // nil if Unmarshal must decode all objects
	fields    []*field  // by index: the fields of the struct and of all structs inside it
	templates templates
	shapes    shapes
}

// compile builds the tables, about 200 KB for a pod. It runs in the first call that decodes an
// object, not earlier, because many informers never decode one.
func (d *decoder) compile() {
	if !layoutsKnown {
		return
	}
	c := compiler{messages: map[reflect.Type]*message{}, boxing: boxing(d.goType)}
	if m, ok := c.message(d.goType); ok { // otherwise the type is unusual
		d.message, d.fields = m, c.fields
	}
}

func (d *decoder) tokenize(s *scratch, raw []byte) bool {
	s.raw, s.fields, s.making, s.print, s.unusual = raw, d.fields, -1, 0, false
	return len(raw) <= maxSize && d.message.tokenize(s, 0, len(raw), maxDepth)
}

// decodeByTables decodes raw. ok is false if Unmarshal must decode the object.
func (d *decoder) decodeByTables(raw []byte, sharing bool) (_ any, ok bool) {
	return d.withScratch(func(s *scratch) (unsafe.Pointer, bool) {
		s.sharing = sharing
		return d.decode(s, raw)
	})
}

// decodeLikeOthersByTables decodes raw with decodeLikeOthers.
func (d *decoder) decodeLikeOthersByTables(raw []byte) (_ any, ok bool) {
	return d.withScratch(func(s *scratch) (unsafe.Pointer, bool) { return d.decodeLikeOthers(s, raw) })
}

// withScratch returns the value that decode has decoded. ok is false if the type has no tables, or
// if decode has returned false.
func (d *decoder) withScratch(decode func(s *scratch) (unsafe.Pointer, bool)) (_ any, ok bool) {
	if d.once.Do(d.compile); d.message == nil {
		return nil, false
	}
	s := scratches.Get().(*scratch)
	s.sharing = false
	image, ok := decode(s)
	s.release()
	if !ok {
		return nil, false
	}
	return reflect.NewAt(d.goType, image).Interface(), true
}

func (d *decoder) decode(s *scratch, raw []byte) (image unsafe.Pointer, ok bool) {
	if !s.sharing {
		if image, ok = d.decodeLikeOthers(s, raw); ok {
			return image, true
		}
	}
	if !d.tokenize(s, raw) {
		return nil, false
	}
	if s.sharing {
		image = d.allocate(s, d.shapes.find(d.goType, s))
		return image, s.decode(image, s.tokens)
	}
	if t := d.templateOf(s); t != nil {
		return s.copyTemplate(t)
	}
	image = d.allocate(s, nil)
	return image, s.decode(image, s.tokens)
}

// allocate allocates the object. If it has a shape, the memory includes its slices and pointers.
func (d *decoder) allocate(s *scratch, sh *shape) unsafe.Pointer {
	t := d.goType
	if s.shape = sh; sh != nil {
		t = sh.goType
	}
	s.image = reflect.New(t).UnsafePointer()
	return s.image
}
