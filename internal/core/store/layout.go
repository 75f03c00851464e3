package store

import (
	"strings"

	"github.com/weirproject/weir/internal/core/pack"
	"github.com/weirproject/weir/internal/core/wire"
)

// cachedDecoder decodes the objects of a store, and caches their decoded values. It is separate
// from the store so that an object that a caller keeps does not keep the store's table alive.
type cachedDecoder struct {
	encoding     wire.Encoding
	decode       func(raw []byte) (any, error)
	decodeCopy   func(raw []byte) (any, error)
	decodeUpdate func(old any, was, is []byte) (oldValue, newValue any, err error)
	cache        *decodedCache
}

// layout describes how an object is stored: packed with a dictionary, as received, or as a value.
// Objects with the same dictionary share a layout. Each value has a separate layout with its
// labels, since it has no bytes to read them from.
type layout struct {
	*cachedDecoder
	dict    *pack.Dictionary // nil: the bytes are stored as received
	isValue bool
	labels  map[string]string // of the value
}

// packSibling packs the object of a key into dst and returns the layout of the result. Objects
// whose names are the same up to the last dash, such as replicas, are packed against each other.
func (s *Store) packSibling(dst, raw []byte, key string) ([]byte, *layout) {
	name, ok := nameOf(key)
	if !ok {
		return s.pack(dst, raw)
	}
	packed, dict := s.packer.PackSibling(dst, raw, name)
	return packed, s.layoutOf(dict)
}

// release notifies the packer that a version has left the table.
func (s *Store) release(o *Object) {
	if o.layout.dict == nil {
		return
	}
	if name, ok := nameOf(o.key); ok {
		packed, _, _ := o.tail()
		s.packer.Release(name, o.layout.dict, packed)
	}
}

// nameOf returns the sibling group and name of the object of a key. ok is false for a name without
// a dash.
func nameOf(key string) (name pack.Name, ok bool) {
	i := strings.LastIndexByte(key, '-')
	if i <= strings.LastIndexByte(key, '/') {
		return pack.Name{}, false
	}
	return pack.Name{Group: key[:i], Object: key}, true
}

// layoutOf returns the layout of objects that are packed with a dictionary.
func (s *Store) layoutOf(dict *pack.Dictionary) *layout {
	if l := s.layout.Load(); l.dict == dict {
		return l
	}
	if dict == nil {
		return &layout{cachedDecoder: s.decoder}
	}
	l := dict.Attached(func() any { return &layout{cachedDecoder: s.decoder, dict: dict} }).(*layout)
	s.layout.Store(l)
	return l
}

// pack packs raw into dst and returns the layout of the result.
func (s *Store) pack(dst, raw []byte) ([]byte, *layout) {
	packed, dict := s.packer.Pack(dst, raw)
	return packed, s.layoutOf(dict)
}
