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
	once    sync.Once // runs compile
	message *message  // nil if Unmarshal must decode all objects
	fields  []*field  // by index: the fields of the struct and of all structs inside it
	shapes  shapes
	plans   *plans // set by compile
}

// compile builds the tables, about 200 KB for a pod. The first call that decodes runs it, because
// many informers never decode an object.
func (d *decoder) compile() {
	if !layoutsKnown {
		return
	}
	c := compiler{messages: map[reflect.Type]*message{}, boxing: boxing(d.goType)}
	if m, ok := c.message(d.goType); ok && len(c.fields) < maxFields { // otherwise the type is unusual
		d.message, d.fields, d.plans = m, c.fields, new(plans)
	}
}

func (d *decoder) tokenize(s *scratch, raw []byte) bool {
	s.raw, s.fields, s.making, s.print, s.unusual = raw, d.fields, -1, 0, false
	return len(raw) <= maxSize && d.message.tokenize(s, 0, len(raw), maxDepth)
}

// decodeByTables decodes raw. ok is false if Unmarshal must decode the object.
func (d *decoder) decodeByTables(raw []byte, sharing bool, prepare func(value any)) (any, bool) {
	if d.once.Do(d.compile); d.message == nil {
		return nil, false
	}
	s := scratches.Get().(*scratch)
	s.sharing, s.prepare = sharing, prepare
	p, ok := d.decode(s, raw)
	s.release()
	if !ok {
		return nil, false
	}
	return reflect.NewAt(d.goType, p).Interface(), true
}

// decodeVersionsByTables decodes two versions. ok is false if the caller must decode them
// separately.
func (d *decoder) decodeVersionsByTables(was, is []byte) (old, fresh any, ok bool) {
	if d.once.Do(d.compile); d.message == nil {
		return nil, nil, false
	}
	s := scratches.Get().(*scratch)
	s.sharing, s.prepare = false, nil
	before, after, ok := d.decodeVersions(s, was, is)
	s.release()
	if !ok {
		return nil, nil, false
	}
	return reflect.NewAt(d.goType, before).Interface(), reflect.NewAt(d.goType, after).Interface(), true
}

func (d *decoder) decode(s *scratch, raw []byte) (unsafe.Pointer, bool) {
	if !s.sharing && s.prepare == nil {
		if image, ok := d.decodeLikeOthers(s, raw); ok {
			return image, true
		}
	}
	if !d.tokenize(s, raw) {
		return nil, false
	}
	if !s.sharing && s.prepare == nil {
		return d.decodeByPlan(s)
	}
	d.allocate(s)
	if s.prepare != nil {
		s.prepare(reflect.NewAt(d.goType, s.image).Interface())
	}
	return s.image, s.decode(s.image, s.tokens)
}

// allocate returns memory for the object. If the object's shape is known, the memory includes its
// slices and pointers.
func (d *decoder) allocate(s *scratch) unsafe.Pointer {
	if s.shape = d.shapes.find(d.goType, s); s.shape != nil {
		s.image = reflect.New(s.shape.goType).UnsafePointer()
	} else {
		s.image = reflect.New(d.goType).UnsafePointer()
	}
	return s.image
}
