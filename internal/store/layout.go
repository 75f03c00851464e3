package store

import (
	"github.com/weirproject/weir/internal/pack"
	"github.com/weirproject/weir/internal/wire"
)

// shared is what all objects of a store have in common. It is apart from the store so that an
// object that somebody keeps does not keep the store's table alive.
type shared struct {
	encoding wire.Encoding
	decode   func(raw []byte) (any, error)
	cache    *decodedCache
}

// layout says how an object is held: packed with a dictionary, or as a value. Objects of one
// dictionary share a layout. A value has its own, and no bytes to read labels from.
type layout struct {
	*shared
	dict    *pack.Dictionary // nil: the bytes are held as they came
	isValue bool
	labels  map[string]string // of the value
}

// pack packs raw into dst and returns the layout of the result.
func (s *Store) pack(dst, raw []byte, fast bool) ([]byte, *layout) {
	packed, dict := s.packer.Pack(dst, raw, fast)
	l := s.layout.Load()
	if l.dict != dict {
		l = &layout{shared: s.shared, dict: dict}
		s.layout.Store(l)
	}
	return packed, l
}
