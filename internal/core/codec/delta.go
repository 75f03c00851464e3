package codec

import (
	"bytes"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// DecodeUpdateShared decodes two versions of an object like DecodeUpdate, for callers that only
// read them. The values share the fields that are equal in both versions, such as the spec and the
// labels of a pod whose status has changed. Those fields are decoded only once. That needs half of
// the memory and CPU for the two versions of a dissimilar pod. This applies only to protobuf; other
// objects are decoded by DecodeShared.
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

// deltaBuffers is the working memory of one call that decodes a version.
type deltaBuffers struct {
	oldFields, newFields []wireField
	changed              []byte // the changed fields, encoded as an object
	inner                []byte // the changed fields inside the field outer
	outer                protowire.Number
	changedPaths         []fieldPath // changed, added and removed fields
	copied               []*fieldEntry
}

// maxDeltaBuffers is the maximum size of buffers that return to the pool, in bytes.
const maxDeltaBuffers = 1 << 20

var deltas = sync.Pool{New: func() any { return new(deltaBuffers) }}

// fieldTable returns the table of the codec's struct. It returns nil if the type has no protobuf
// form, or is a custom type, whose Unmarshal may reset fields that the bytes do not contain.
func (c *Codec) fieldTable() fieldTable {
	if c.protobuf == nil || !isTrusted(c.protobuf.goType) {
		return nil
	}
	return fieldTableOf(c.protobuf.goType, true)
}

// decodeOver decodes a version of an object from its bytes, is. The previous version has the bytes
// was and the value old. The result shares the memory of old for fields that are equal in both
// versions. ok is false if decodeOver cannot do that.
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

// decodeCopy decodes a version of an object from its message, is. The previous version has the
// message was and the value old, which no caller has received. Some fields are structs that have
// equal bytes in both versions, such as the spec of a pod whose status has changed. decodeCopy
// deep-copies these fields from old, because a copy costs less than decoding. The two values
// therefore share only strings. ok is false if there are no such fields, or if decodeCopy cannot
// decode the message.
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

// release returns b to the pool, unless a large object grew its buffers beyond maxDeltaBuffers. It
// drops the references to the object's bytes.
func (b *deltaBuffers) release() {
	clear(b.oldFields)
	clear(b.newFields)
	if cap(b.changed)+cap(b.inner) <= maxDeltaBuffers {
		deltas.Put(b)
	}
}

// compare stores the changed and added fields in changed, and the paths of changed, added and
// removed fields in changedPaths.
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

// endOuter appends the field outer to changed. Its content is inner, the changed fields inside it.
func (b *deltaBuffers) endOuter() {
	if len(b.inner) > 0 {
		b.changed = protowire.AppendTag(b.changed, b.outer, protowire.BytesType)
		b.changed = protowire.AppendBytes(b.changed, b.inner)
		b.inner = b.inner[:0]
	}
}

// wireField is one field of a message, with the bytes of all its values and their tags. A field
// that is a struct, such as metadata, spec and status, is split into the fields inside it.
type wireField struct {
	path  fieldPath
	bytes []byte
}

// fieldPath is the position of a field. outer is the number of a field of the object, and inner the
// number of a field inside outer's struct. inner is 0 if outer is not split.
type fieldPath struct{ outer, inner protowire.Number }

func (p fieldPath) less(q fieldPath) bool {
	return p.outer < q.outer || p.outer == q.outer && p.inner < q.inner
}

// fieldTable contains the fields of a struct by their numbers; an entry is nil if there is no field
// with its number.
type fieldTable []*fieldEntry

type fieldEntry struct {
	index    int           // in the struct
	of       fieldTable    // the fields inside it, if it is a struct
	deepCopy reflect.Value // its DeepCopyInto, if it is a struct with that method
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

// split appends the fields of a message: of field outer of the object, or of the object itself if
// outer is 0. If inside is set, it replaces each field that is a struct by the fields inside it. ok
// is false unless all fields are known and in the order of their numbers, as every Go encoder
// writes them. In another order, the values of a field might not be adjacent.
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
