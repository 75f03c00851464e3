package store

import (
	"slices"
	"sync"

	"github.com/weirproject/weir/internal/pack"
)

// AppendRaw appends the object's bytes, as they came, to dst.
func (o *Object) AppendRaw(dst []byte) ([]byte, error) { return o.appendRaw(dst, nil) }

// AppendVersions appends the bytes of two versions of an object: those of was to wasDst, and those
// of is to isDst. If both are patches of the same bytes, or one of them is what the other is a
// patch of, those bytes are unpacked once.
func AppendVersions(was, is *Object, wasDst, isDst []byte) (wasRaw, isRaw []byte, err error) {
	var base []byte
	if was.patched+is.patched > 0 && was.hasBaseOf(is) {
		buf := baseBuffers.Get().(*baseBuffer)
		defer baseBuffers.Put(buf)
		if base, err = buf.unpack(is); err != nil {
			return wasDst, isDst, err
		}
	}
	if wasRaw, err = was.appendRaw(wasDst, base); err != nil {
		return wasDst, isDst, err
	}
	isRaw, err = is.appendRaw(isDst, base)
	return wasRaw, isRaw, err
}

// appendRaw appends the object's bytes, as they came, to dst. base is what unpackBase appends, or
// nil.
func (o *Object) appendRaw(dst, base []byte) ([]byte, error) {
	if o.flags&flagCutUID == 0 {
		return o.appendBody(dst, base)
	}
	// With room for the uid in front, to which only what is before it has to move.
	n, at := len(dst), int(o.cutAt)
	out, err := o.appendBody(slices.Grow(dst, int(o.size))[:n+uuidLen], base)
	if err != nil {
		return dst, err
	}
	copy(out[n:], out[n+uuidLen:][:at])
	putUUID(out[n+at:], &o.uid)
	return out, nil
}

// appendBody appends the object's bytes without a uid that was cut out.
func (o *Object) appendBody(dst, base []byte) ([]byte, error) {
	switch {
	case o.patched == 0 && base == nil:
		return o.unpackBase(dst)
	case o.patched == 0:
		return append(dst, base...), nil
	}
	if base == nil {
		buf := baseBuffers.Get().(*baseBuffer)
		defer baseBuffers.Put(buf)
		var err error
		if base, err = buf.unpack(o); err != nil {
			return dst, err
		}
	}
	_, patch := o.parts()
	return pack.ApplyPatch(dst, base, patch, o.bodySize())
}

// parts returns the packed bytes, and the patch that makes this version of what they are of.
func (o *Object) parts() (packed, patch string) {
	packed, _, _ = o.tail()
	n := len(packed) - int(o.patched)
	return packed[:n], packed[n:]
}

// hasBaseOf reports whether the packed bytes of both versions are the same.
func (o *Object) hasBaseOf(other *Object) bool {
	a, _ := o.parts()
	b, _ := other.parts()
	return o.layout == other.layout && o.baseSize() == other.baseSize() && a == b
}

// unpackBase appends what the packed bytes are of: this version, or what the patch is for.
func (o *Object) unpackBase(dst []byte) ([]byte, error) {
	packed, _ := o.parts()
	return o.layout.dict.Unpack(dst, packed, o.baseSize())
}

// baseSize returns the number of bytes that unpackBase appends.
func (o *Object) baseSize() int {
	if o.patched > 0 {
		return int(o.based)
	}
	return o.bodySize()
}

// bodySize returns the number of bytes without a uid that was cut out.
func (o *Object) bodySize() int {
	if o.flags&flagCutUID != 0 {
		return int(o.size) - uuidLen
	}
	return int(o.size)
}

// baseBuffer is memory to unpack a base in. It has no more than the largest object that is patched.
type baseBuffer struct{ raw []byte }

var baseBuffers = sync.Pool{New: func() any { return new(baseBuffer) }}

func (b *baseBuffer) unpack(o *Object) (base []byte, err error) {
	if base, err = o.unpackBase(b.raw[:0]); err == nil {
		b.raw = base
	}
	return base, err
}
