package clientgo

import (
	"bytes"
	"hash/maphash"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/decode"
)

// part is all of one field of a message: its bytes with their tags, or, where those are not at hand, their hash. The fields that
// are structs, such as metadata, spec and status, are cut into the fields of those.
type part struct {
	path  path
	bytes []byte
	sum   sum // where bytes is nil
}

// path is the number of a field in the object, and in the struct that is that field; 0 where that is not cut up.
type path struct{ outer, inner protowire.Number }

func (p path) less(q path) bool {
	return p.outer < q.outer || p.outer == q.outer && p.inner < q.inner
}

// sum stands for bytes that are not at hand: 128 bits of two hashes with seeds of this process, so that different bytes
// will not have the same one, by chance or by design.
type sum [2]uint64

var sumSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) sum {
	return sum{maphash.Bytes(sumSeeds[0], b), maphash.Bytes(sumSeeds[1], b)}
}

func (p part) same(as part) bool {
	if p.bytes == nil {
		return p.sum == sumOf(as.bytes)
	}
	return bytes.Equal(p.bytes, as.bytes)
}

// sums are parts without their bytes, to compare others with.
func sums(parts []part) []part {
	bare := make([]part, len(parts))
	for i, p := range parts {
		bare[i] = part{path: p.path, sum: sumOf(p.bytes)}
	}
	return bare
}

// members are the fields of a struct by their numbers; nil: there is no such field.
type members []*member

type member struct {
	index int     // in the struct
	of    members // of a field that is cut up
}

// of is the member of a number.
func (m members) of(number protowire.Number) *member {
	if int64(number) < int64(len(m)) {
		return m[number]
	}
	return nil
}

// field is the field at a path in the struct that the members are of.
func (m members) field(v reflect.Value, p path) reflect.Value {
	outer := m[p.outer]
	v = v.Field(outer.index)
	if p.inner > 0 {
		v = v.Field(outer.of[p.inner].index)
	}
	return v
}

// membersOf makes the table of a struct, and of the structs in it where inside says so.
func membersOf(t reflect.Type, inside bool) (m members) {
	for i := range t.NumField() {
		f := t.Field(i)
		number, ok := decode.FieldNumber(f.Tag.Get("protobuf"))
		if !ok || !f.IsExported() {
			continue
		}
		for len(m) <= number {
			m = append(m, nil)
		}
		m[number] = &member{index: i}
		if inside && f.Type.Kind() == reflect.Struct {
			m[number].of = membersOf(f.Type, false)
		}
	}
	return m
}

// cut appends the parts of an object. It reports false unless all its fields are known, and in the order of their numbers, as every
// Go encoder writes them: only then is a field all in one place.
func (m members) cut(parts []part, object []byte) ([]part, bool) {
	return m.cutInside(parts, object, 0)
}

// cutInside is cut for the message that is the field outer of the object; 0: it is the object.
func (m members) cutInside(parts []part, message []byte, outer protowire.Number) (_ []part, ok bool) {
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
			if parts, ok = member.of.cutInside(parts, content, number); !ok {
				return parts, false
			}
		case number == last:
			parts[len(parts)-1].bytes = message[begin : end+n+size]
		default:
			begin = end
			p := path{outer: number}
			if outer > 0 {
				p = path{outer, number}
			}
			parts = append(parts, part{path: p, bytes: message[begin : end+n+size]})
		}
		last = number
		end += n + size
	}
	return parts, true
}
