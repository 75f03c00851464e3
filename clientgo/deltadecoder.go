package clientgo

import (
	"bytes"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/decode"
)

// deltaDecoder decodes the new version of an object over the old one. It decodes fields that are
// equal in both, such as the spec and the labels of a pod whose status has changed, only once. Both
// values share them and so are read-only. It works for protobuf only. Safe for concurrent use.
type deltaDecoder struct {
	codec    *codec.Codec
	protobuf *decode.Decoder
	fields   fieldTable // of the struct; nil if the type has no protobuf form
	buffers  sync.Pool  // of *deltaBuffers
}

// deltaBuffers is the memory of one decode call.
type deltaBuffers struct {
	oldFields, newFields []wireField
	changed              []byte // the changed fields, encoded as an object
	inner                []byte // the changed fields of the current field outer
	outer                protowire.Number
	changedPaths         []fieldPath // changed, added and removed fields
}

// maxDeltaBuffers limits the bytes that a pooled deltaBuffers keeps.
const maxDeltaBuffers = 1 << 20

func newDeltaDecoder(values *codec.Codec) *deltaDecoder {
	d := &deltaDecoder{codec: values, protobuf: decode.For(values.Type()), buffers: sync.Pool{New: func() any { return new(deltaBuffers) }}}
	if d.protobuf != nil {
		d.fields = fieldTableOf(values.Type().Elem(), true)
	}
	return d
}

// decodeUpdate decodes two versions of an object, as store.Config.DecodeUpdate does. The values are
// read-only.
func (d *deltaDecoder) decodeUpdate(old any, was, is []byte) (_, fresh any, err error) {
	if old == nil {
		if old, err = d.codec.DecodeShared(was); err != nil {
			return nil, nil, err
		}
	}
	fresh, ok := d.decode(old, was, is)
	if !ok {
		fresh, err = d.codec.DecodeShared(is)
	}
	return old, fresh, err
}

// decode decodes a version. The result shares its unchanged fields with old, the value of the
// version was. decode reports false if it cannot do that.
func (d *deltaDecoder) decode(old any, was, is []byte) (any, bool) {
	if d.fields == nil {
		return nil, false
	}
	b := d.buffers.Get().(*deltaBuffers)
	defer d.release(b)
	kind, message := d.codec.CutKind(is)
	_, oldMessage := d.codec.CutKind(was)
	var ok bool
	if b.oldFields, ok = d.fields.split(b.oldFields[:0], oldMessage, 0); !ok {
		return nil, false
	}
	if b.newFields, ok = d.fields.split(b.newFields[:0], message, 0); !ok {
		return nil, false
	}
	b.compare()
	value, err := d.protobuf.DecodeOver(b.changed, func(value any) {
		v := reflect.ValueOf(value).Elem()
		v.Set(reflect.ValueOf(old).Elem())
		for _, path := range b.changedPaths {
			d.fields.field(v, path).SetZero()
		}
	})
	if err != nil {
		return nil, false
	}
	return d.codec.SetKind(value, kind), true
}

// release returns buffers to the pool, unless a large object grew them beyond maxDeltaBuffers. They
// keep nothing of the object's bytes.
func (d *deltaDecoder) release(b *deltaBuffers) {
	clear(b.oldFields)
	clear(b.newFields)
	if cap(b.changed)+cap(b.inner) <= maxDeltaBuffers {
		d.buffers.Put(b)
	}
}

// compare collects the changed, added and removed fields in changed and changedPaths.
func (b *deltaBuffers) compare() {
	b.changed, b.inner, b.changedPaths = b.changed[:0], b.inner[:0], b.changedPaths[:0]
	before := b.oldFields
	for i := range b.newFields {
		field := &b.newFields[i]
		for len(before) > 0 && before[0].path.less(field.path) {
			b.changedPaths = append(b.changedPaths, before[0].path)
			before = before[1:]
		}
		if len(before) > 0 && before[0].path == field.path {
			same := bytes.Equal(before[0].bytes, field.bytes)
			if before = before[1:]; same {
				continue
			}
		}
		b.changedPaths = append(b.changedPaths, field.path)
		b.add(field)
	}
	for _, gone := range before {
		b.changedPaths = append(b.changedPaths, gone.path)
	}
	b.endOuter()
}

// add appends a field to changed.
func (b *deltaBuffers) add(p *wireField) {
	if p.path.outer != b.outer {
		b.endOuter()
	}
	if p.path.inner == 0 {
		b.changed = append(b.changed, p.bytes...)
		return
	}
	b.outer = p.path.outer
	b.inner = append(b.inner, p.bytes...)
}

// endOuter appends the field whose own changed fields are in inner to changed.
func (b *deltaBuffers) endOuter() {
	if len(b.inner) > 0 {
		b.changed = protowire.AppendTag(b.changed, b.outer, protowire.BytesType)
		b.changed = protowire.AppendBytes(b.changed, b.inner)
		b.inner = b.inner[:0]
	}
}

// wireField is one field of a message with the bytes of all its values and their tags. Fields that
// are structs, such as metadata, spec and status, are split into their own fields.
type wireField struct {
	path  fieldPath
	bytes []byte
}

// fieldPath is the position of a field: outer is the number of a field in the object, inner the
// number of a field in outer's struct. inner is 0 if outer is not split.
type fieldPath struct{ outer, inner protowire.Number }

func (p fieldPath) less(q fieldPath) bool {
	return p.outer < q.outer || p.outer == q.outer && p.inner < q.inner
}

// fieldTable has the fields of a struct by their numbers; nil entries are numbers without a field.
type fieldTable []*fieldEntry

type fieldEntry struct {
	index int        // of the struct's field
	of    fieldTable // the fields of a field that is split
}

// of returns the entry of a field number, or nil.
func (m fieldTable) of(number protowire.Number) *fieldEntry {
	if int64(number) < int64(len(m)) {
		return m[number]
	}
	return nil
}

// field returns the field at a path in v, a struct of the table's type.
func (m fieldTable) field(v reflect.Value, p fieldPath) reflect.Value {
	outer := m[p.outer]
	v = v.Field(outer.index)
	if p.inner > 0 {
		v = v.Field(outer.of[p.inner].index)
	}
	return v
}

// fieldTableOf returns the table of a struct. If inside is set, it includes the tables of its
// struct fields.
func fieldTableOf(t reflect.Type, inside bool) (m fieldTable) {
	for i := range t.NumField() {
		f := t.Field(i)
		number, ok := decode.FieldNumber(f)
		if !ok {
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

// split appends the fields of a message: field outer of the object, or the object itself if outer
// is 0. It reports false unless all fields are known and in the order of their numbers, as every Go
// encoder writes them: only then are all values of a field adjacent.
func (m fieldTable) split(fields []wireField, message []byte, outer protowire.Number) (_ []wireField, ok bool) {
	last := protowire.Number(0)
	for begin, end := 0, 0; end < len(message); {
		number, wireType, n := protowire.ConsumeTag(message[end:])
		if n < 0 || number < last {
			return fields, false
		}
		size := protowire.ConsumeFieldValue(number, wireType, message[end+n:])
		member := m.of(number)
		if size < 0 || member == nil {
			return fields, false
		}
		switch {
		case member.of != nil && wireType == protowire.BytesType:
			if number == last {
				return fields, false
			}
			content, _ := protowire.ConsumeBytes(message[end+n:])
			if fields, ok = member.of.split(fields, content, number); !ok {
				return fields, false
			}
		case number == last:
			fields[len(fields)-1].bytes = message[begin : end+n+size]
		default:
			begin = end
			p := fieldPath{outer: number}
			if outer > 0 {
				p = fieldPath{outer, number}
			}
			fields = append(fields, wireField{path: p, bytes: message[begin : end+n+size]})
		}
		last = number
		end += n + size
	}
	return fields, true
}
