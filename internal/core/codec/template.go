//go:build !weir_safe

package codec

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// template is an object that no caller receives. For an object with the same fields, the decoder
// copies the template and sets the values that differ. Most bytes of the objects of a workload are
// equal, and so are most bytes of two versions of an object. Comparing and copying equal bytes is
// much cheaper than decoding. A copy shares strings with the template, but no slices, pointers or
// maps.
type template struct {
	prototype
	moves    []move
	stepOf   []int32        // by token: the step that sets its value; negative if there is none
	repeated []repeatedStep // the steps whose values cannot be copied by assignment

	ofCopies bool // a copy can itself be a prototype, because every map can be cloned
}

// prototype is an object that the decoder compares with other objects and copies: a template, or
// the earlier of two versions.
type prototype struct {
	raw       []byte
	locations []location // by token
	image     unsafe.Pointer
}

// move contains two positions in an object's memory: of a slice or pointer, and of the piece that
// it points to. In a copy of the object, the slice or pointer must point to the piece in the copy.
type move struct{ to, piece uint32 }

// repeatedStep is a step that the decoder repeats for each copy. Most are for boxes and for maps
// that can be cloned.
type repeatedStep struct {
	step  int32
	clone func(to, from unsafe.Pointer) // nil if the step must decode the prototype's bytes
}

type textEntry struct{ key, value string }

// location is the position of a token in the prototype's bytes.
type location struct {
	begin, end uint32 // with the tag; for a map, from its first entry to the end of its last
	content    uint32 // where the content begins
	span       int32  // the number of tokens, including those inside; for a map, of its entries
	comparison comparison
}

// comparison says how the decoder compares a token with the prototype's token.
type comparison uint8

const (
	asBlock comparison = iota
	asMessage
	asMap
	asTextMap
	asVarint
	asFixed64
)

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
	c := &template{stepOf: slices.Repeat([]int32{-1}, len(p.tokens))}
	c.prototype = prototype{bytes.Clone(s.raw), make([]location, len(p.tokens)), reflect.New(p.shape.goType).UnsafePointer()}
	s.locate(c.locations, p.tokens, 0)
	c.ofCopies = true
	s.image = c.image
	if !s.follow(p) {
		return nil
	}
	for i := range p.steps {
		st := &p.steps[i]
		c.stepOf[st.token] = int32(i)
		value := unsafe.Add(c.image, st.to)
		switch {
		case st.kind == pointer || st.kind == slice:
			c.moves = append(c.moves, move{st.to, st.piece})
		case st.kind == boxed:
			c.repeated = append(c.repeated, repeatedStep{int32(i), st.field.box.clone})
		case st.kind == mapping:
			clone := cloneOf(st.field.goType, value)
			c.repeated = append(c.repeated, repeatedStep{int32(i), clone})
			c.ofCopies = c.ofCopies && clone != nil
		case st.kind == other && !canCopy(st.field.goType, value):
			c.repeated = append(c.repeated, repeatedStep{step: int32(i)})
		}
	}
	return c
}

// locate sets the locations of tokens. The first token starts at pos. The tokens must cover all
// bytes.
func (s *scratch) locate(locations []location, tokens []token, pos uint32) (end uint32) {
	for i := 0; i < len(tokens); {
		t, loc := &tokens[i], &locations[i]
		_, n := varint(s.raw, int(pos))
		*loc = location{begin: pos, content: pos + uint32(n), span: t.span}
		f := s.fields[t.field]
		switch f.wireType {
		case protowire.VarintType:
			_, n = varint(s.raw, int(loc.content))
			loc.comparison, loc.end = asVarint, loc.content+uint32(n)
		case protowire.Fixed64Type:
			loc.comparison, loc.end = asFixed64, loc.content+8
		default:
			loc.content, loc.end = uint32(t.value), uint32(t.value>>32)
		}
		pos = loc.end
		switch {
		case f.message != nil:
			loc.comparison = asMessage
			s.locate(locations[i+1:i+int(t.span)], tokens[i+1:i+int(t.span)], loc.content)
		case f.kind == mapping:
			if loc.comparison, loc.span = asMap, t.count; f.goType.Elem().Kind() == reflect.String {
				loc.comparison = asTextMap
			}
			pos = uint32(tokens[i+int(t.count)-1].value >> 32)
			loc.end = pos
		}
		i += int(loc.span)
	}
	return pos
}

// cloneOf returns a function that copies maps of type t. It returns nil if the map at p must be
// decoded again. The function does not retain p.
func cloneOf(t reflect.Type, p unsafe.Pointer) func(to, from unsafe.Pointer) {
	switch {
	case t.Elem().Kind() == reflect.String:
		return cloneTexts
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		for _, q := range *(*map[string]resource.Quantity)(p) {
			if hasPointer(&q) {
				return nil
			}
		}
		return cloneQuantities
	}
	return nil
}

// cloneTexts copies a map of strings with maps.Clone, which hashes no keys for a small map. The
// map's key and value may have named string types; see setTextMap.
func cloneTexts(to, from unsafe.Pointer) {
	*(*map[string]string)(to) = maps.Clone(*(*map[string]string)(from))
}

func cloneQuantities(to, from unsafe.Pointer) {
	*(*map[string]resource.Quantity)(to) = maps.Clone(*(*map[string]resource.Quantity)(from))
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
