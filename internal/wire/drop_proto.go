package wire

import (
	"encoding/binary"
	"reflect"
)

// entryValueField is the field of a map's entry that holds the value.
const entryValueField = 2

func (n *dropNode) addProto(goType reflect.Type, path string) error {
	steps, _, err := resolvePath(goType, path)
	if err != nil {
		return err
	}
	inEntry := false
	for _, s := range steps {
		if inEntry {
			n = child(&n.fields, entryValueField)
		}
		inEntry = s.pick == pickEntry || s.pick == pickKey
		n = child(&n.fields, s.num)
		switch s.pick {
		case pickIndex:
			return errDropIndex(path)
		case pickAll:
			n = n.each()
		case pickEntry:
			n.isMap = true
			n = n.each()
		case pickKey:
			n.isMap = true
			n = child(&n.keys, s.key)
		}
	}
	n.drop = true
	return nil
}

// appendProto appends the message b without what n removes from it. at is the index at which b is
// malformed, or -1.
func (n *dropNode) appendProto(dst, b []byte) (_ []byte, at int) {
	copied := 0
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		if next < 0 {
			return dst, i
		}
		from := i
		i = next
		todo := n.fields[f.num]
		if todo == nil {
			continue
		}
		inner := next - len(f.bytes)
		if !todo.drop {
			if f.typ != typeBytes {
				return dst, from
			}
			var ok bool
			if todo, ok = todo.of(f.bytes); !ok {
				return dst, inner
			}
			if todo == nil {
				continue
			}
		}
		dst = append(dst, b[copied:from]...)
		copied = next
		if todo.drop {
			continue
		}
		if dst, at = todo.appendField(dst, f.num, f.bytes); at >= 0 {
			return dst, inner + at
		}
	}
	return append(dst, b[copied:]...), -1
}

// of returns the node for the message in one occurrence of a field, or nil if nothing is removed
// from it.
func (n *dropNode) of(b []byte) (todo *dropNode, ok bool) {
	if !n.isMap {
		if n.all != nil {
			return n.all, true
		}
		return n, true
	}
	key, ok := entryKey(b)
	if !ok {
		return nil, false
	}
	if todo := n.keys[string(key)]; todo != nil {
		return todo, true
	}
	return n.all, true
}

// appendField appends the message b as field num, without what n removes from it. at is the index
// at which b is malformed, or -1.
func (n *dropNode) appendField(dst []byte, num uint32, b []byte) (_ []byte, at int) {
	dst = appendTag(dst, num, typeBytes)
	lengthAt := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	from := len(dst)
	if dst, at = n.appendProto(dst, b); at >= 0 {
		return dst, at
	}
	size := len(dst) - from
	length := binary.AppendUvarint(dst[:lengthAt], uint64(size))
	if len(length) < from {
		copy(dst[len(length):], dst[from:])
	}
	return dst[:len(length)+size], -1
}

// entryKey returns the key of an entry of a map.
func entryKey(b []byte) (key []byte, ok bool) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return nil, false
		}
		if f.num == 1 {
			if f.typ != typeBytes {
				return nil, false
			}
			key = f.bytes
		}
	}
	return key, true
}
