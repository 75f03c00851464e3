//go:build !weir_safe

package codec

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// template is an object that no caller receives. For an object with the same fields, the decoder
// copies the template and sets the values that differ. Most bytes of the objects of a workload are
// equal, and so are most bytes of two versions of an object. Comparing and copying equal bytes is
// much cheaper than decoding. A copy shares strings with the template, but no slices, pointers or
// maps.
type template struct {
	raw       []byte
	image     unsafe.Pointer
	locations []location // by token
	moves     []move
	stepOf    []int32        // by token: the step that sets its value; negative if there is none
	repeated  []repeatedStep // the steps whose values cannot be copied by assignment
}

// move contains two positions in an object's memory: of a slice or pointer, and of the piece that
// it points to. In a copy of the object, the slice or pointer must point to the piece in the copy.
type move struct{ to, piece uint32 }

// repeatedStep is a step that the decoder repeats for each copy. Most are for boxes and for maps
// that can be cloned.
type repeatedStep struct {
	step  int32
	clone func(to, from unsafe.Pointer) // nil if the step must decode the template's bytes
}

// location is the position of a token in the template's bytes.
type location struct {
	field      *field
	begin, end uint32 // with the tag; for a map, from its first entry to the end of its last
	content    uint32 // of a message: where it begins
	span       int32  // the number of tokens, including those inside; for a map, of its entries
}

// maxTemplate is the maximum size of an object that becomes a template, in bytes.
const maxTemplate = 16 << 10

// lastApplied is part of the name of the annotation in which kubectl apply stores the whole object.
var lastApplied = []byte("last-applied-configuration")

// isSecret reports whether the bytes of an object may contain a Secret's data. Such bytes must not
// become a template, which stays in memory for the life of the process. For PartialObjectMetadata,
// isSecret only looks at the bytes, because the type does not say whose metadata it is.
func isSecret(t reflect.Type, raw []byte) bool {
	if t == reflect.TypeFor[metav1.PartialObjectMetadata]() {
		return bytes.Contains(raw, lastApplied)
	}
	return t.Name() == "Secret" && t.PkgPath() == "k8s.io/api/core/v1"
}

// newTemplate returns a template of the current object, or nil if the object cannot be copied. p
// must have its steps and tokens already.
func (s *scratch) newTemplate(p *plan) *template {
	if s.unusual || len(s.raw) > maxTemplate || isSecret(p.decoder.goType, s.raw) {
		return nil
	}
	c := &template{
		raw:       bytes.Clone(s.raw),
		image:     reflect.New(p.shape.goType).UnsafePointer(),
		locations: make([]location, len(p.tokens)),
		stepOf:    slices.Repeat([]int32{-1}, len(p.tokens)),
	}
	s.locate(c.locations, p.tokens, 0)
	s.image = c.image
	if !s.follow(p) {
		return nil
	}
	for i := range p.steps {
		st := &p.steps[i]
		c.stepOf[st.token] = int32(i)
		value := unsafe.Add(c.image, st.to)
		switch {
		case st.field.kind == pointer || st.field.kind == slice:
			c.moves = append(c.moves, move{st.to, st.piece})
		case st.field.kind == boxed:
			c.repeated = append(c.repeated, repeatedStep{int32(i), st.field.box.clone})
		case st.field.kind == mapping:
			c.repeated = append(c.repeated, repeatedStep{int32(i), cloneOf(st.field.goType, value)})
		case st.field.kind == other && !canCopy(st.field.goType, value):
			c.repeated = append(c.repeated, repeatedStep{step: int32(i)})
		}
	}
	return c
}

// locate sets the locations of tokens. The first token starts at pos. The tokens must cover all
// bytes.
func (s *scratch) locate(locations []location, tokens []token, pos int) {
	for i := 0; i < len(tokens); {
		t, loc := &tokens[i], &locations[i]
		f := s.fields[t.field]
		_, n := varint(s.raw, pos)
		x, end := cut(s.raw, pos+n, f.wireType)
		*loc = location{field: f, begin: uint32(pos), end: uint32(end), content: uint32(x), span: t.span}
		if f.kind == mapping {
			loc.span, loc.end = t.count, uint32(tokens[i+int(t.count)-1].value>>32)
		}
		next := i + int(loc.span)
		if f.message != nil {
			s.locate(locations[i+1:next], tokens[i+1:next], int(loc.content))
		}
		i, pos = next, int(loc.end)
	}
}

// cloneOf returns a function that copies maps of type t with maps.Clone, which hashes no keys for a
// small map. Key and value of the map may have named string types; see setMapOf. cloneOf returns
// nil if the map at p must be decoded again. The function does not retain p.
func cloneOf(t reflect.Type, p unsafe.Pointer) func(to, from unsafe.Pointer) {
	switch {
	case t.Elem().Kind() == reflect.String:
		return cloneMap[string]
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		for _, q := range *(*map[string]resource.Quantity)(p) {
			if hasPointer(&q) {
				return nil
			}
		}
		return cloneMap[resource.Quantity]
	}
	return nil
}

func cloneMap[V any](to, from unsafe.Pointer) {
	*(*map[string]V)(to) = maps.Clone(*(*map[string]V)(from))
}

// canCopy reports whether assignment copies a value completely, so that the copies share nothing
// mutable.
func canCopy(t reflect.Type, p unsafe.Pointer) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return !hasPointer((*resource.Quantity)(p))
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[time.Time]():
		return true
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !canCopy(f.Type, unsafe.Add(p, f.Offset)) {
				return false
			}
		}
		return true
	case reflect.Pointer, reflect.UnsafePointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.Array:
		return false
	}
	return true
}
