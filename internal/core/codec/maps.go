//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// setMap returns a function that sets a map of type t with string keys. set decodes one value.
func setMap(t reflect.Type, set setter) func(*scratch, unsafe.Pointer, []token) bool {
	return func(s *scratch, p unsafe.Pointer, entries []token) bool {
		out := reflect.MakeMapWithSize(t, len(entries))
		for i := range entries {
			key, val, ok := pair(s.block(&entries[i]))
			elem := reflect.New(t.Elem())
			if !ok || !set(s, elem.UnsafePointer(), val) {
				return false
			}
			out.SetMapIndex(reflect.ValueOf(s.text(key)).Convert(t.Key()), elem.Elem())
		}
		reflect.NewAt(t, p).Elem().Set(out)
		return true
	}
}

// setMapOf does what setMap does, but faster, for maps with string keys and values of type V. The
// types of keys and values may also be named types, because these have the same layout.
func setMapOf[V any](set setter) func(*scratch, unsafe.Pointer, []token) bool {
	return func(s *scratch, p unsafe.Pointer, entries []token) bool {
		out := make(map[string]V, len(entries))
		var value V
		for i := range entries {
			key, val, ok := pair(s.block(&entries[i]))
			if !ok || !set(s, unsafe.Pointer(&value), val) {
				return false
			}
			out[s.text(key)] = value
		}
		*(*map[string]V)(p) = out
		return true
	}
}

// pair returns the key and the value of a map entry. A missing key or value is empty. ok is false
// if a Go encoder would not write the entry in this form.
func pair(raw []byte) (key, val []byte, ok bool) {
	const first, second = 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.BytesType)
	if len(raw) > 0 && raw[0] == first {
		b, n := block(raw[1:])
		if n < 0 {
			return nil, nil, false
		}
		key, raw = b, raw[1+n:]
	}
	if len(raw) > 0 && raw[0] == second {
		b, n := block(raw[1:])
		if n < 0 {
			return nil, nil, false
		}
		val, raw = b, raw[1+n:]
	}
	return key, val, len(raw) == 0
}
