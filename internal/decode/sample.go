package decode

import (
	"bytes"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sample is an object that nobody is handed. Another one of the same fields becomes a copy of it, in which what differs is put right:
// most of what the objects of a workload consist of is the same bytes in all, and so are an object's two versions. Comparing bytes
// and copying memory is much less work than decoding. A copy has pieces, maps and byte slices of its own; strings are shared.
type sample struct {
	raw    []byte
	spots  []spot // by token
	image  unsafe.Pointer
	object reflect.Value // the same, to be copied
	moves  []move
	stepOf []int32 // by token: the step that sets what differs in it; negative: none
	afresh []again // what cannot be copied
}

// move is a pointer into an object, that of a slice or a pointer: in a copy it has to point into the copy.
type move struct{ to, piece uint32 }

// again is a step that is taken for each copy. Maps of texts and quantities, most of what cannot be copied, are made of their entries.
type again struct {
	step       int32
	texts      []textEntry
	quantities []quantityEntry
}

type textEntry struct{ key, value string }

type quantityEntry struct {
	key   string
	value resource.Quantity
}

// spot is where a token is in the sample.
type spot struct {
	begin, end uint32 // with its tag; of the first entry of a map: to the end of the last
	content    uint32 // where that begins
	span       int32  // tokens, with those inside; of a map all its entries
	what       what
}

// what is what a token holds, as far as comparing goes.
type what uint8

const (
	aBlock what = iota
	aMessage
	aMap
	aTextMap
	aVarint
	aFixed64
)

// maxSample is how many bytes an object may have for others to be copied of it.
const maxSample = 16 << 10

// isSecret reports whether objects of a type are not to be kept: a sample stays for good.
func isSecret(t reflect.Type) bool {
	return t.Name() == "Secret" && t.PkgPath() == "k8s.io/api/core/v1"
}

// newSample makes a sample of the object in hand, whose plan has its steps and tokens; nil if others cannot be copied of it.
func (s *scratch) newSample(p *plan) *sample {
	if s.odd || len(s.raw) > maxSample || isSecret(p.decoder.goType) {
		return nil
	}
	c := &sample{raw: bytes.Clone(s.raw), stepOf: slices.Repeat([]int32{-1}, len(p.tokens)), spots: make([]spot, len(p.tokens))}
	s.locate(c.spots, p.tokens, 0)
	object := reflect.New(p.shape.goType)
	c.object, c.image = object.Elem(), object.UnsafePointer()
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
		case st.kind == mapping:
			c.afresh = append(c.afresh, entriesOf(int32(i), st.field.goType, value))
		case st.kind == other && !canCopy(st.field.goType, value):
			c.afresh = append(c.afresh, again{step: int32(i)})
		}
	}
	return c
}

// locate finds the spots of tokens, which begin at pos. There is nothing between them that is no token.
func (s *scratch) locate(spots []spot, tokens []token, pos uint32) (end uint32) {
	for i := 0; i < len(tokens); {
		t, sp := &tokens[i], &spots[i]
		_, n := varint(s.raw, int(pos))
		*sp = spot{begin: pos, content: pos + uint32(n), span: t.span}
		f := s.fields[t.field]
		switch f.wireType {
		case protowire.VarintType:
			_, n = varint(s.raw, int(sp.content))
			sp.what, sp.end = aVarint, sp.content+uint32(n)
		case protowire.Fixed64Type:
			sp.what, sp.end = aFixed64, sp.content+8
		default:
			sp.content, sp.end = uint32(t.value), uint32(t.value>>32)
		}
		pos = sp.end
		switch {
		case f.message != nil:
			sp.what = aMessage
			s.locate(spots[i+1:i+int(t.span)], tokens[i+1:i+int(t.span)], sp.content)
		case f.kind == mapping:
			if sp.what, sp.span = aMap, t.count; f.goType.Elem().Kind() == reflect.String {
				sp.what = aTextMap
			}
			pos = uint32(tokens[i+int(t.count)-1].value >> 32)
			sp.end = pos
		}
		i += int(sp.span)
	}
	return pos
}

// entriesOf takes the entries out of a map that is of the usual kinds, so that it can be made again quickly.
func entriesOf(step int32, t reflect.Type, p unsafe.Pointer) again {
	a := again{step: step}
	switch {
	case t.Elem().Kind() == reflect.String:
		for k, v := range *(*map[string]string)(p) {
			a.texts = append(a.texts, textEntry{k, v})
		}
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		for k, v := range *(*map[string]resource.Quantity)(p) {
			if hasPointer(&v) {
				return again{step: step}
			}
			a.quantities = append(a.quantities, quantityEntry{k, v})
		}
	}
	return a
}

// canCopy reports whether an assignment copies a value whole, so that the copies have nothing in common that can be changed.
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
