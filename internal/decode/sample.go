package decode

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

// sample is an object that nobody is handed. Another one of the same fields becomes a copy of it,
// in which what differs is put right: most of what the objects of a workload consist of is the same
// bytes in all, and so are an object's two versions. Comparing bytes and copying memory is much
// less work than decoding. A copy has pieces, maps and byte slices of its own; strings are shared.
type sample struct {
	original
	moves  []move
	stepOf []int32 // by token: the step that sets what differs in it; negative: none
	afresh []again // what cannot be copied

	ofCopies bool // a copy can be copied in its turn: no map has to be made of the sample's own tokens
}

// original is what an object is compared with and becomes a copy of: a sample, or the version
// before.
type original struct {
	raw   []byte
	spots []spot // by token
	image unsafe.Pointer
}

// move is a pointer into an object, that of a slice or a pointer: in a copy it has to point into
// the copy.
type move struct{ to, piece uint32 }

// again is a step that is taken for each copy. Most of what cannot be copied is boxes, and maps
// whose values can be assigned; those are cloned.
type again struct {
	step  int32
	clone func(to, from unsafe.Pointer) // nil: the step is taken with the original's bytes
}

type textEntry struct{ key, value string }

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

// newSample makes a sample of the object in hand, whose plan has its steps and tokens; nil if
// others cannot be copied of it.
func (s *scratch) newSample(p *plan) *sample {
	if s.odd || len(s.raw) > maxSample || isSecret(p.decoder.goType) {
		return nil
	}
	c := &sample{stepOf: slices.Repeat([]int32{-1}, len(p.tokens))}
	c.original = original{bytes.Clone(s.raw), make([]spot, len(p.tokens)), reflect.New(p.shape.goType).UnsafePointer()}
	s.locate(c.spots, p.tokens, 0)
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
			c.afresh = append(c.afresh, again{int32(i), st.field.box.clone})
		case st.kind == mapping:
			clone := cloneOf(st.field.goType, value)
			c.afresh = append(c.afresh, again{int32(i), clone})
			c.ofCopies = c.ofCopies && clone != nil
		case st.kind == other && !canCopy(st.field.goType, value):
			c.afresh = append(c.afresh, again{step: int32(i)})
		}
	}
	return c
}

// locate finds the spots of tokens, which begin at pos. There is nothing between them that is no
// token.
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

// cloneOf returns how to copy a map of the usual kinds, or nil for one that has to be made of its
// bytes. What it returns keeps nothing of p.
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

// cloneTexts copies a map as the runtime does, which takes no hashing for a small one. The names of
// its types do not matter: see setTextMap.
func cloneTexts(to, from unsafe.Pointer) {
	*(*map[string]string)(to) = maps.Clone(*(*map[string]string)(from))
}

func cloneQuantities(to, from unsafe.Pointer) {
	*(*map[string]resource.Quantity)(to) = maps.Clone(*(*map[string]resource.Quantity)(from))
}

// canCopy reports whether an assignment copies a value whole, so that the copies have nothing in
// common that can be changed.
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
