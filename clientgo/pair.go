package clientgo

import (
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/decode"
)

// pairs decodes two versions of an object at once. What is the same in both, such as the spec and the labels of a pod whose status
// has changed, is decoded once and shared by the two: they are read-only. It works for protobuf alone; with JSON the two are
// decoded apart. Safe for concurrent use.
type pairs struct {
	protobuf *decode.Decoder
	members  members   // of the struct; nil: the type has no protobuf form
	scratch  sync.Pool // of *pairScratch
}

type pairScratch struct {
	was, is         []byte
	wasParts, parts []part
	changed         []byte // an object of the parts that are not the same
	inner           []byte // and those of one field of it
	same            []path
}

func newPairs(goType reflect.Type) *pairs {
	p := &pairs{protobuf: decode.For(goType), scratch: sync.Pool{New: func() any { return new(pairScratch) }}}
	if p.protobuf != nil {
		p.members = membersOf(goType.Elem(), true)
	}
	return p
}

// decode makes the value of is, sharing with old, the value of was, what is the same. It reports false where it cannot.
// wasParts is set, or was.
func (p *pairs) decode(old any, sc *pairScratch) (any, bool) {
	sc.parts = sc.parts[:0]
	if p.members == nil {
		return nil, false
	}
	ok := true
	if len(sc.wasParts) == 0 {
		sc.wasParts, ok = p.members.cut(sc.wasParts, sc.was)
	}
	if ok {
		sc.parts, ok = p.members.cut(sc.parts, sc.is)
	}
	if !ok {
		return nil, false
	}
	sc.compare()
	value, err := p.protobuf.DecodeShared(sc.changed)
	if err != nil || len(sc.same) == 0 { // there may be no old
		return value, err == nil
	}
	to, from := reflect.ValueOf(value).Elem(), reflect.ValueOf(old).Elem()
	for _, path := range sc.same {
		outer := p.members[path.outer]
		a, b := to.Field(outer.index), from.Field(outer.index)
		if path.inner > 0 {
			index := outer.of[path.inner].index
			a, b = a.Field(index), b.Field(index)
		}
		a.Set(b)
	}
	return value, true
}

// compare parts what is the same from what has changed.
func (sc *pairScratch) compare() {
	sc.changed, sc.inner, sc.same = sc.changed[:0], sc.inner[:0], sc.same[:0]
	before := sc.wasParts
	for i := range sc.parts {
		part := &sc.parts[i]
		for len(before) > 0 && before[0].path.less(part.path) {
			before = before[1:]
		}
		switch {
		case len(before) > 0 && before[0].path == part.path && before[0].same(*part):
			sc.same = append(sc.same, part.path)
		case part.path.inner > 0:
			sc.inner = append(sc.inner, part.bytes...)
		default:
			sc.changed = append(sc.changed, part.bytes...)
		}
		if len(sc.inner) > 0 && (i+1 == len(sc.parts) || sc.parts[i+1].path.outer != part.path.outer) {
			sc.changed = protowire.AppendTag(sc.changed, part.path.outer, protowire.BytesType)
			sc.changed = protowire.AppendBytes(sc.changed, sc.inner)
			sc.inner = sc.inner[:0]
		}
	}
}
