package codec

import (
	"bytes"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Version is an earlier version of an object that the codec decodes.
type Version struct {
	Raw   []byte
	Value any // the value that Raw was decoded to
	// Unread is true if no caller has received Value, so no caller has changed it.
	Unread bool
}

// decodeChanged decodes only the fields of an object that differ from the earlier version, such as
// the status. If sharing is true, the result shares the other fields with the earlier version.
// Otherwise, decodeChanged copies the whole object from a template, if one fits. If none fits, it
// deep-copies the other fields, which costs less than to decode them. ok is false if no field can
// be shared or copied, or if decodeChanged cannot decode the object.
func (c *Codec) decodeChanged(raw []byte, earlier *Version, sharing bool) (_ any, ok bool) {
	if c.protobuf == nil || !isProtobuf(raw) || !isProtobuf(earlier.Raw) {
		return nil, false
	}
	kind, message := c.cutKind(raw)
	if !sharing {
		if value, ok := c.protobuf.decodeLikeOthersByTables(message); ok {
			return c.setKind(value, kind), true
		}
	}
	_, before := c.cutKind(earlier.Raw)
	b := updates.Get().(*update)
	defer b.release()
	if b.changed, ok = b.compare(0, b.changed, c.protobuf.members(), before, message, sharing); !ok || len(b.unchanged) == 0 {
		return nil, false
	}
	value, err := c.protobuf.unmarshal(b.changed, sharing)
	if err != nil {
		return nil, false
	}
	from, to := reflect.ValueOf(earlier.Value).Elem(), reflect.ValueOf(value).Elem()
	for _, m := range b.unchanged {
		was, is := from.FieldByIndex(m.index), to.FieldByIndex(m.index)
		if sharing {
			is.Set(was)
		} else {
			m.deepCopy.Call([]reflect.Value{was.Addr(), is.Addr()})
		}
	}
	return c.setKind(value, kind), true
}

// update is the working memory of one call of decodeChanged.
type update struct {
	levels    [2]struct{ was, is [][]byte } // fields of both versions: of the object, inside a field
	unchanged []*member
	changed   []byte // the changed and added fields, encoded as an object
	inner     []byte // the changed and added fields inside a field
}

// maxUpdate is the maximum size of the buffers of an update that returns to the pool, in bytes.
const maxUpdate = 1 << 20

var updates = sync.Pool{New: func() any { return new(update) }}

// release returns b to the pool, unless a large object grew its buffers beyond maxUpdate. It drops
// the references to the objects' bytes.
func (b *update) release() {
	for i := range b.levels {
		clear(b.levels[i].was)
		clear(b.levels[i].is)
	}
	b.unchanged, b.changed = b.unchanged[:0], b.changed[:0]
	if cap(b.changed)+cap(b.inner) <= maxUpdate {
		updates.Put(b)
	}
}

// compare compares two messages. It appends the unchanged members to b.unchanged and the other
// fields of the second message to dst. If sharing is true, it appends only the changed fields
// inside a changed struct, such as metadata or status. If sharing is false, it appends each changed
// member whole, and an unchanged member that cannot be deep-copied counts as changed. ok is false
// if a message cannot be split.
func (b *update) compare(level int, dst []byte, members []*member, was, is []byte, sharing bool) (_ []byte, ok bool) {
	l := &b.levels[level]
	if l.was, ok = split(l.was, members, was); !ok {
		return dst, false
	}
	if l.is, ok = split(l.is, members, is); !ok {
		return dst, false
	}
	for number, m := range members {
		before, field := l.was[number], l.is[number]
		if len(field) == 0 {
			continue
		}
		if (sharing || m.deepCopy.IsValid()) && bytes.Equal(before, field) {
			b.unchanged = append(b.unchanged, m)
			continue
		}
		if inner, ok := b.compareInside(m, before, field, sharing); ok {
			dst = protowire.AppendTag(dst, protowire.Number(number), protowire.BytesType)
			dst = protowire.AppendBytes(dst, inner)
			continue
		}
		dst = append(dst, field...)
	}
	return dst, true
}

// compareInside compares the two versions of a changed field. If the field is a struct, it returns
// the changed fields of the struct. ok is false if the whole field must be decoded, for example
// because sharing is false.
func (b *update) compareInside(m *member, was, is []byte, sharing bool) (changed []byte, ok bool) {
	before, ok := content(was)
	message, okToo := content(is)
	if !sharing || m.inside == nil || !ok || !okToo {
		return nil, false
	}
	b.inner, ok = b.compare(1, b.inner[:0], m.inside, before, message, true)
	return b.inner, ok
}

// content returns the message in a field. ok is false if the field has another wire type, or occurs
// more than once.
func content(field []byte) (message []byte, ok bool) {
	if len(field) == 0 {
		return nil, true
	}
	_, wireType, n := protowire.ConsumeTag(field)
	message, size := protowire.ConsumeBytes(field[n:])
	return message, wireType == protowire.BytesType && n+size == len(field)
}

// split returns, by field number, the bytes of all values of each field, with their tags. ok is
// true only if all fields are members, and if they are in the order of their numbers. Every Go
// encoder writes them in that order. In another order, the values of a field might not be adjacent.
func split(fields [][]byte, members []*member, message []byte) (_ [][]byte, ok bool) {
	fields = append(fields[:0], make([][]byte, len(members))...)
	last := protowire.Number(0)
	for at := 0; at < len(message); {
		number, _, n := protowire.ConsumeField(message[at:])
		if n < 0 || number < last || int(number) >= len(members) || members[number] == nil {
			return fields, false
		}
		begin := at - len(fields[number])
		at += n
		fields[number], last = message[begin:at], number
	}
	return fields, true
}

// member is a field of an object's struct, or of a struct in it.
type member struct {
	index    []int         // as in reflect.StructField
	inside   []*member     // the fields inside it, if it is a struct of the object
	deepCopy reflect.Value // its DeepCopyInto, if it is a struct of the object with that method
}

// membersOf returns the members of a struct by their field numbers. outer is the index of the
// struct in the struct that contains it, if there is one. membersOf returns nil for a custom type,
// whose Unmarshal may reset fields that the bytes do not contain.
func membersOf(t reflect.Type, outer ...int) (members []*member) {
	if !isTrusted(t) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		number, ok := fieldNumber(f)
		if !ok {
			continue
		}
		for len(members) <= number {
			members = append(members, nil)
		}
		m := &member{index: append(slices.Clone(outer), i)}
		members[number] = m
		if f.Type.Kind() != reflect.Struct || len(outer) > 0 {
			continue
		}
		m.inside = membersOf(f.Type, i)
		if method, ok := reflect.PointerTo(f.Type).MethodByName("DeepCopyInto"); ok {
			m.deepCopy = method.Func
		}
	}
	return members
}
