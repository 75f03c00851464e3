package codec

import (
	"bytes"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// DecodeUpdateShared decodes two versions of an object like DecodeUpdate, for callers that only
// read them. The new version is decoded over the old one: the values share fields that are equal in
// both, such as the spec and the labels of a pod whose status has changed, which are decoded only
// once. That needs half of the memory and CPU for the two versions of a dissimilar pod. It works
// for protobuf only; other objects are decoded as DecodeShared does.
func (c *Codec) DecodeUpdateShared(old any, was, is []byte) (_, fresh any, err error) {
	if old == nil {
		if old, err = c.DecodeShared(was); err != nil {
			return nil, nil, err
		}
	}
	fresh, ok := c.decodeOver(old, was, is)
	if !ok {
		fresh, err = c.DecodeShared(is)
	}
	return old, fresh, err
}

// deltaBuffers is the memory of one decode call.
type deltaBuffers struct {
	oldFields, newFields []wireField
	changed              []byte // the changed fields, encoded as an object
	inner                []byte // the changed fields of the current field outer
	outer                protowire.Number
	changedPaths         []fieldPath // changed, added and removed fields
	copied               []*fieldEntry
}

// maxDeltaBuffers limits the bytes that a pooled deltaBuffers keeps.
const maxDeltaBuffers = 1 << 20

var deltas = sync.Pool{New: func() any { return new(deltaBuffers) }}

// fieldTable returns the table of the codec's struct. It returns nil if the type has no protobuf
// form, or is custom: its Unmarshal may reset what it does not set.
func (c *Codec) fieldTable() fieldTable {
	if c.protobuf == nil || !isTrusted(c.protobuf.goType) {
		return nil
	}
	return fieldTableOf(c.protobuf.goType, true)
}

// decodeOver decodes a version. The result shares its unchanged fields with old, the value of the
// version was. decodeOver reports false if it cannot do that.
func (c *Codec) decodeOver(old any, was, is []byte) (any, bool) {
	fields := c.fields()
	if fields == nil {
		return nil, false
	}
	b := deltas.Get().(*deltaBuffers)
	defer b.release()
	kind, message := c.cutKind(is)
	_, oldMessage := c.cutKind(was)
	var ok bool
	if b.oldFields, ok = fields.split(b.oldFields[:0], oldMessage, 0, true); !ok {
		return nil, false
	}
	if b.newFields, ok = fields.split(b.newFields[:0], message, 0, true); !ok {
		return nil, false
	}
	b.compare()
	value, err := c.protobuf.unmarshal(b.changed, true, func(value any) {
		v := reflect.ValueOf(value).Elem()
		v.Set(reflect.ValueOf(old).Elem())
		for _, path := range b.changedPaths {
			fields.field(v, path).SetZero()
		}
	})
	if err != nil {
		return nil, false
	}
	return c.setKind(value, kind), true
}

// decodeCopy decodes the message of a version. was is the message of old, which no caller has. The
// fields that are structs and have equal bytes in both, such as the spec of a pod whose status has
// changed, are deep copies of old's, which costs less than to decode them. So the values share only
// strings. decodeCopy reports false if there are no such fields, or if it cannot decode the
// message.
func (c *Codec) decodeCopy(old any, was, is []byte) (any, bool) {
	fields := c.fields()
	if fields == nil {
		return nil, false
	}
	b := deltas.Get().(*deltaBuffers)
	defer b.release()
	var ok bool
	if b.oldFields, ok = fields.split(b.oldFields[:0], was, 0, false); !ok {
		return nil, false
	}
	if b.newFields, ok = fields.split(b.newFields[:0], is, 0, false); !ok {
		return nil, false
	}
	b.changed, b.copied = b.changed[:0], b.copied[:0]
	before := b.oldFields
	for i := range b.newFields {
		field := &b.newFields[i]
		for len(before) > 0 && before[0].path.less(field.path) {
			before = before[1:]
		}
		member := fields[field.path.outer]
		if member.deepCopy.IsValid() && len(before) > 0 && before[0].path == field.path && bytes.Equal(before[0].bytes, field.bytes) {
			b.copied = append(b.copied, member)
		} else {
			b.changed = append(b.changed, field.bytes...)
		}
	}
	if len(b.copied) == 0 {
		return nil, false
	}
	value, err := c.protobuf.unmarshal(b.changed, false, func(value any) {
		from, to := reflect.ValueOf(old).Elem(), reflect.ValueOf(value).Elem()
		for _, member := range b.copied {
			member.deepCopy.Call([]reflect.Value{from.Field(member.index).Addr(), to.Field(member.index).Addr()})
		}
	})
	return value, err == nil
}

// release returns buffers to the pool, unless a large object grew them beyond maxDeltaBuffers. They
// keep nothing of the object's bytes.
func (b *deltaBuffers) release() {
	clear(b.oldFields)
	clear(b.newFields)
	if cap(b.changed)+cap(b.inner) <= maxDeltaBuffers {
		deltas.Put(b)
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
	index    int           // of the struct's field
	of       fieldTable    // the fields of a field that is a struct
	deepCopy reflect.Value // DeepCopyInto of a pointer to such a field, or the zero Value
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
		number, ok := fieldNumber(f)
		if !ok {
			continue
		}
		for len(m) <= number {
			m = append(m, nil)
		}
		m[number] = &fieldEntry{index: i}
		if inside && f.Type.Kind() == reflect.Struct {
			m[number].of = fieldTableOf(f.Type, false)
			if method, ok := reflect.PointerTo(f.Type).MethodByName("DeepCopyInto"); ok {
				m[number].deepCopy = method.Func
			}
		}
	}
	return m
}

// split appends the fields of a message: field outer of the object, or the object itself if outer
// is 0. If inside is set, it appends the fields of those that are structs in their place. It
// reports false unless all fields are known and in the order of their numbers, as every Go encoder
// writes them: only then are all values of a field adjacent.
func (m fieldTable) split(fields []wireField, message []byte, outer protowire.Number, inside bool) (_ []wireField, ok bool) {
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
		case number == last && member.of != nil:
			return fields, false
		case inside && member.of != nil && wireType == protowire.BytesType:
			content, _ := protowire.ConsumeBytes(message[end+n:])
			if fields, ok = member.of.split(fields, content, number, false); !ok {
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
