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
	inner           []byte // and those of one field of it,
	outer           protowire.Number
	differ          []path // what has changed, come or gone
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
	if sc.compare(); old == nil {
		value, err := p.protobuf.DecodeShared(sc.changed)
		return value, err == nil
	}
	value, err := p.protobuf.DecodeOver(sc.changed, func(value any) {
		v := reflect.ValueOf(value).Elem()
		v.Set(reflect.ValueOf(old).Elem())
		for _, path := range sc.differ {
			p.members.field(v, path).SetZero()
		}
	})
	return value, err == nil
}

// compare parts what is the same from what has changed, come or gone.
func (sc *pairScratch) compare() {
	sc.changed, sc.inner, sc.differ = sc.changed[:0], sc.inner[:0], sc.differ[:0]
	before := sc.wasParts
	for i := range sc.parts {
		part := &sc.parts[i]
		for len(before) > 0 && before[0].path.less(part.path) {
			sc.differ = append(sc.differ, before[0].path)
			before = before[1:]
		}
		if len(before) > 0 && before[0].path == part.path {
			same := before[0].same(*part)
			if before = before[1:]; same {
				continue
			}
		}
		sc.differ = append(sc.differ, part.path)
		sc.add(part)
	}
	for _, gone := range before {
		sc.differ = append(sc.differ, gone.path)
	}
	sc.endOuter()
}

// add adds a part to what has changed.
func (sc *pairScratch) add(p *part) {
	if p.path.outer != sc.outer {
		sc.endOuter()
	}
	if p.path.inner == 0 {
		sc.changed = append(sc.changed, p.bytes...)
		return
	}
	sc.outer = p.path.outer
	sc.inner = append(sc.inner, p.bytes...)
}

// endOuter adds the field of the object whose fields are in inner.
func (sc *pairScratch) endOuter() {
	if len(sc.inner) > 0 {
		sc.changed = protowire.AppendTag(sc.changed, sc.outer, protowire.BytesType)
		sc.changed = protowire.AppendBytes(sc.changed, sc.inner)
		sc.inner = sc.inner[:0]
	}
}
