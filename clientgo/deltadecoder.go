package clientgo

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/decode"
)

// pairs decodes two versions of an object at once. What is the same in both, such as the spec and the labels of a pod whose status
// has changed, is decoded once and shared by the two: they are read-only. It works for protobuf alone; with JSON the two are
// decoded apart. Safe for concurrent use.
type deltaDecoder struct {
	protobuf *decode.Decoder
	fields   fieldTable // of the struct; nil: the type has no protobuf form
	buffers  sync.Pool  // of *pairScratch
}

type deltaBuffers struct {
	oldRaw, newRaw       []byte
	oldFields, newFields []wireField
	changed              []byte // an object of the parts that are not the same
	inner                []byte // and those of one field of it,
	outer                protowire.Number
	changedPaths         []fieldPath // what has changed, come or gone
}

func newDeltaDecoder(goType reflect.Type) *deltaDecoder {
	p := &deltaDecoder{protobuf: decode.For(goType), buffers: sync.Pool{New: func() any { return new(deltaBuffers) }}}
	if p.protobuf != nil {
		p.fields = fieldTableOf(goType.Elem(), true)
	}
	return p
}

// decode makes the value of is, sharing with old, the value of was, what is the same. It reports false where it cannot.
// wasParts is set, or was.
func (p *deltaDecoder) decode(old any, sc *deltaBuffers) (any, bool) {
	sc.newFields = sc.newFields[:0]
	if p.fields == nil {
		return nil, false
	}
	ok := true
	if len(sc.oldFields) == 0 {
		sc.oldFields, ok = p.fields.split(sc.oldFields, sc.oldRaw)
	}
	if ok {
		sc.newFields, ok = p.fields.split(sc.newFields, sc.newRaw)
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
		for _, path := range sc.changedPaths {
			p.fields.field(v, path).SetZero()
		}
	})
	return value, err == nil
}

// compare parts what is the same from what has changed, come or gone.
func (sc *deltaBuffers) compare() {
	sc.changed, sc.inner, sc.changedPaths = sc.changed[:0], sc.inner[:0], sc.changedPaths[:0]
	before := sc.oldFields
	for i := range sc.newFields {
		part := &sc.newFields[i]
		for len(before) > 0 && before[0].path.less(part.path) {
			sc.changedPaths = append(sc.changedPaths, before[0].path)
			before = before[1:]
		}
		if len(before) > 0 && before[0].path == part.path {
			same := before[0].equal(*part)
			if before = before[1:]; same {
				continue
			}
		}
		sc.changedPaths = append(sc.changedPaths, part.path)
		sc.add(part)
	}
	for _, gone := range before {
		sc.changedPaths = append(sc.changedPaths, gone.path)
	}
	sc.endOuter()
}

// add adds a part to what has changed.
func (sc *deltaBuffers) add(p *wireField) {
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
func (sc *deltaBuffers) endOuter() {
	if len(sc.inner) > 0 {
		sc.changed = protowire.AppendTag(sc.changed, sc.outer, protowire.BytesType)
		sc.changed = protowire.AppendBytes(sc.changed, sc.inner)
		sc.inner = sc.inner[:0]
	}
}

// part is all of one field of a message: its bytes with their tags, or, where those are not at hand, their hash. The fields that
// are structs, such as metadata, spec and status, are cut into the fields of those.
type wireField struct {
	path   fieldPath
	bytes  []byte
	digest digest // where bytes is nil
}

// path is the number of a field in the object, and in the struct that is that field; 0 where that is not cut up.
type fieldPath struct{ outer, inner protowire.Number }

func (p fieldPath) less(q fieldPath) bool {
	return p.outer < q.outer || p.outer == q.outer && p.inner < q.inner
}

// sum stands for bytes that are not at hand: 128 bits of two hashes with seeds of this process, so that different bytes
// will not have the same one, by chance or by design.
type digest [2]uint64

var digestSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func digestOf(b []byte) digest {
	return digest{maphash.Bytes(digestSeeds[0], b), maphash.Bytes(digestSeeds[1], b)}
}

func (p wireField) equal(as wireField) bool {
	if p.bytes == nil {
		return p.digest == digestOf(as.bytes)
	}
	return bytes.Equal(p.bytes, as.bytes)
}

// sums are parts without their bytes, to compare others with.
func digests(parts []wireField) []wireField {
	bare := make([]wireField, len(parts))
	for i, p := range parts {
		bare[i] = wireField{path: p.path, digest: digestOf(p.bytes)}
	}
	return bare
}

// members are the fields of a struct by their numbers; nil: there is no such field.
type fieldTable []*fieldEntry

type fieldEntry struct {
	index int        // in the struct
	of    fieldTable // of a field that is cut up
}

// of is the member of a number.
func (m fieldTable) of(number protowire.Number) *fieldEntry {
	if int64(number) < int64(len(m)) {
		return m[number]
	}
	return nil
}

// field is the field at a path in the struct that the members are of.
func (m fieldTable) field(v reflect.Value, p fieldPath) reflect.Value {
	outer := m[p.outer]
	v = v.Field(outer.index)
	if p.inner > 0 {
		v = v.Field(outer.of[p.inner].index)
	}
	return v
}

// membersOf makes the table of a struct, and of the structs in it where inside says so.
func fieldTableOf(t reflect.Type, inside bool) (m fieldTable) {
	for i := range t.NumField() {
		f := t.Field(i)
		number, ok := decode.FieldNumber(f.Tag.Get("protobuf"))
		if !ok || !f.IsExported() {
			continue
		}
		for len(m) <= number {
			m = append(m, nil)
		}
		m[number] = &fieldEntry{index: i}
		if inside && f.Type.Kind() == reflect.Struct {
			m[number].of = fieldTableOf(f.Type, false)
		}
	}
	return m
}

// cut appends the parts of an object. It reports false unless all its fields are known, and in the order of their numbers, as every
// Go encoder writes them: only then is a field all in one place.
func (m fieldTable) split(parts []wireField, object []byte) ([]wireField, bool) {
	return m.splitMessage(parts, object, 0)
}

// cutInside is cut for the message that is the field outer of the object; 0: it is the object.
func (m fieldTable) splitMessage(parts []wireField, message []byte, outer protowire.Number) (_ []wireField, ok bool) {
	last := protowire.Number(0)
	for begin, end := 0, 0; end < len(message); {
		number, kind, n := protowire.ConsumeTag(message[end:])
		if n < 0 || number < last {
			return parts, false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[end+n:])
		member := m.of(number)
		if size < 0 || member == nil {
			return parts, false
		}
		switch {
		case member.of != nil && kind == protowire.BytesType:
			if number == last {
				return parts, false
			}
			content, _ := protowire.ConsumeBytes(message[end+n:])
			if parts, ok = member.of.splitMessage(parts, content, number); !ok {
				return parts, false
			}
		case number == last:
			parts[len(parts)-1].bytes = message[begin : end+n+size]
		default:
			begin = end
			p := fieldPath{outer: number}
			if outer > 0 {
				p = fieldPath{outer, number}
			}
			parts = append(parts, wireField{path: p, bytes: message[begin : end+n+size]})
		}
		last = number
		end += n + size
	}
	return parts, true
}
