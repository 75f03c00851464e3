//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
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

// setTextMap sets a map from strings to strings. The map's key and value may have named string
// types, because their layout is the same.
func setTextMap(s *scratch, p unsafe.Pointer, entries []token) bool {
	out := make(map[string]string, len(entries))
	for i := range entries {
		key, val, ok := pair(s.block(&entries[i]))
		if !ok {
			return false
		}
		out[s.text(key)] = s.text(val)
	}
	*(*map[string]string)(p) = out
	return true
}

func setQuantityMap(s *scratch, p unsafe.Pointer, entries []token) bool {
	out := make(map[string]resource.Quantity, len(entries))
	for i := range entries {
		key, val, ok := pair(s.block(&entries[i]))
		var q resource.Quantity
		if !ok || !setQuantity(s, unsafe.Pointer(&q), val) {
			return false
		}
		out[s.text(key)] = q
	}
	*(*map[string]resource.Quantity)(p) = out
	return true
}

// pair returns the key and the value of a map entry. A missing key or value is empty. ok is false
// if the entry is not written as Go encoders write it.
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
