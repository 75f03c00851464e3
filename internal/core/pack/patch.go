package pack

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	seedLength = 8 // a copy at a new distance must start with this number of equal bytes
	indexEvery = 4 // the index of the base has every indexEvery-th place
	// A patch consists of copies of parts of the base, and of literals: bytes of raw that the patch
	// itself contains. After patchSeek consecutive literals, the patcher builds an index of the next
	// patchWindow bytes of the base. A distance is the position of bytes in the base minus their
	// position in raw. Before it builds the index, the patcher tries the distances that fit after most
	// changes: the current distance, one or two bytes more or less, the previous distance, and the
	// distance of the two ends.
	patchSeek   = 12
	patchWindow = 1 << 10
	windowBits  = 9
)

// MaxPatched is the maximum size of base and of raw in AppendPatch, in bytes.
const MaxPatched = maxSibling

// AppendPatch appends a patch to dst. base is an earlier version of an object, and the patch turns
// base into raw. most is the maximum length of the patch. ok is false if the patch would be longer,
// or if base or raw is larger than MaxPatched.
//
// AppendPatch does not retain its arguments. AppendPatch and [ApplyPatch] are safe for concurrent
// use.
func AppendPatch(dst, base, raw []byte, most int) (_ []byte, ok bool) {
	if len(base) > MaxPatched || len(raw) > MaxPatched {
		return dst, false
	}
	begin := len(dst)
	p := patcher{end: len(base) - len(raw)}
	p.encoder = encoder{dst: binary.AppendUvarint(dst, uint64(len(raw))), base: base, raw: raw, offset: len(base)}
	from := 0 // the start of the literals that have not been written
	for at := 0; at < len(raw); {
		place, n := p.find(at, at-from)
		if n == 0 {
			if at++; len(p.dst)-begin+at-from > most {
				return dst, false
			}
			continue
		}
		for at > from && place > 0 && raw[at-1] == base[place-1] {
			at, place, n = at-1, place-1, n+1
		}
		p.literal(raw[from:at])
		p.copy(len(base)-p.distance, n)
		at += n
		from = at
	}
	p.literal(raw[from:])
	return p.dst, len(p.dst)-begin <= most
}

// patcher writes a patch.
type patcher struct {
	encoder
	// The current distance (see patchSeek), the previous distance, and the distance of the two ends.
	distance, before, end int
	places                window
}

// window maps the hash of eight bytes of the base to the place of these bytes in the base. 0 means
// that there is no place, and n means place n-1.
type window [1 << windowBits]uint16

func placeIn(x uint64) uint64 { return x * 0x9e3779b97f4a7c15 >> (64 - windowBits) }

// fill fills the window with places of the base, starting at the place from. If several places have
// the same bytes, the window contains the first.
func (w *window) fill(base []byte, from int) {
	clear(w[:])
	base = base[:min(len(base), from+patchWindow)]
	for at := len(base) - seedLength; at >= from; at -= indexEvery {
		w[placeIn(binary.LittleEndian.Uint64(base[at:]))] = uint16(at + 1)
	}
}

// find returns a place in the base, and the number n of bytes there that equal the bytes at
// raw[at:]. It sets p.distance to place minus at. If there is no such place, n is 0. literals is
// the number of consecutive literals before the position at.
func (p *patcher) find(at, literals int) (place, n int) {
	if p.begins(at+p.distance, at) {
		place = at + p.distance
		return place, equal(p.base[place:], p.raw[at:])
	}
	if at+seedLength > len(p.raw) {
		return 0, 0
	}
	x := binary.LittleEndian.Uint64(p.raw[at:])
	for _, d := range [...]int{p.before, p.end} {
		if p.has(at+d, x) {
			return p.move(at, at+d)
		}
	}
	if literals < patchSeek {
		for _, d := range [...]int{1, -1, 2, -2} {
			if p.has(at+p.distance+d, x) {
				return p.move(at, at+p.distance+d)
			}
		}
		return 0, 0
	}
	if literals == patchSeek {
		p.places.fill(p.base, max(0, min(at-literals+p.distance, len(p.base))))
	}
	if place := int(p.places[placeIn(x)]) - 1; p.has(place, x) {
		return p.move(at, place)
	}
	return 0, 0
}

// has reports whether the eight bytes at place in the base are x.
func (p *patcher) has(place int, x uint64) bool {
	return place >= 0 && place <= len(p.base)-seedLength && binary.LittleEndian.Uint64(p.base[place:]) == x
}

func (p *patcher) move(at, place int) (_, n int) {
	p.before, p.distance = p.distance, place-at
	return place, equal(p.base[place:], p.raw[at:])
}

// ApplyPatch appends to dst the object that the patch creates from base. size is the object's size
// in bytes. If ApplyPatch notices that the patch was not made from base, it returns dst and
// ErrCorrupt. It does not notice every wrong base. It retains neither base nor patch.
func ApplyPatch(dst, base []byte, patch string, size int) ([]byte, error) {
	out, ok := decodeBlock(dst, base, views.Bytes(patch), size)
	if !ok {
		return dst, ErrCorrupt
	}
	return out, nil
}

// shortest is the minimum length of a copy, which is a part of a block that repeats bytes of the
// base. S2 does not allow shorter copies.
const shortest = 4

// encoder writes an S2 block that creates raw from literal bytes and from copies of parts of base.
type encoder struct {
	dst, base, raw []byte
	offset         int // of the last copy
}

// begins reports whether base[place:] and raw[at:] start with equal bytes, enough of them for a
// copy (see shortest).
func (e *encoder) begins(place, at int) bool {
	return place >= 0 && place <= len(e.base)-shortest && at <= len(e.raw)-shortest &&
		binary.LittleEndian.Uint32(e.base[place:]) == binary.LittleEndian.Uint32(e.raw[at:])
}

// equal returns the number of equal bytes at the start of a and b.
func equal(a, b []byte) (n int) {
	most := min(len(a), len(b))
	a, b = a[:most], b[:most]
	const stride = 128 // the runtime compares this number of bytes in a few instructions
	for n <= most-stride && string(a[n:n+stride]) == string(b[n:n+stride]) {
		n += stride
	}
	for ; n <= most-8; n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// The lowest bits of the S2 tags that the encoder writes, and the maximum length of a copy2.
const (
	tagCopy1, tagCopy2 = 1, 2
	literal1, literal2 = 60 << 2, 61 << 2 // the length follows in one byte, or in two
	longestCopy2       = 64
)

func (e *encoder) literal(b []byte) {
	n := len(b) - 1
	switch {
	case n < 0:
		return
	case n < 60:
		e.dst = append(e.dst, byte(n<<2))
	case n < 1<<8:
		e.dst = append(e.dst, literal1, byte(n))
	default: // an object is smaller than 32 KiB
		e.dst = append(e.dst, literal2, byte(n), byte(n>>8))
	}
	e.dst = append(e.dst, b...)
}

// copy writes a copy of the given length, which must be at least shortest. offset must be below 64
// KiB.
func (e *encoder) copy(offset, length int) {
	if offset != e.offset {
		n := min(length, longestCopy2)
		if rest := length - n; rest > 0 && rest < shortest {
			n -= shortest
		}
		e.dst = append(e.dst, byte((n-1)<<2|tagCopy2), byte(offset), byte(offset>>8))
		e.offset = offset
		if length -= n; length == 0 {
			return
		}
	}
	switch {
	case length <= 8:
		e.dst = append(e.dst, byte((length-4)<<2|tagCopy1), 0)
	case length < 1<<8+4:
		length -= 8
		e.dst = append(e.dst, 5<<2|tagCopy1, 0, byte(length))
	default:
		length -= 1<<8 + 4
		e.dst = append(e.dst, 6<<2|tagCopy1, 0, byte(length), byte(length>>8))
	}
}

// decodeBlock decodes block, which AppendPatch wrote, and appends the result to dst. size is the
// length of the result. decodeBlock accepts only blocks of AppendPatch, which copy only from the
// base. ok is false for other blocks.
func decodeBlock(dst, base, block []byte, size int) (_ []byte, ok bool) {
	if n, taken := binary.Uvarint(block); taken <= 0 || n != uint64(size) {
		return dst, false
	} else {
		block = block[taken:]
	}
	begin := len(dst)
	dst = slices.Grow(dst, size)
	out, offset := dst[begin:begin+size], len(base)
	at := 0
	for len(block) > 0 {
		t := block[0]
		taken, n := 1, int(t>>2)+1
		switch {
		case t&3 == tagCopy2 && len(block) >= 3:
			taken, offset = 3, int(block[1])|int(block[2])<<8
		case t&0xe3 == tagCopy1 && len(block) >= 4 && n == 7: // an S2 repeat
			taken, n = 4, 1<<8+4+(int(block[2])|int(block[3])<<8)
		case t&0xe3 == tagCopy1 && len(block) >= 3 && n == 6:
			taken, n = 3, 8+int(block[2])
		case t&0xe3 == tagCopy1 && len(block) >= 2 && n <= 5:
			taken, n = 2, n+3
		case t == literal2 && len(block) >= 3:
			taken, n = 3, (int(block[1])|int(block[2])<<8)+1
		case t == literal1 && len(block) >= 2:
			taken, n = 2, int(block[1])+1
		case t&3 != 0 || t >= literal1:
			return dst[:begin], false
		}
		block = block[taken:]
		from := base[max(0, min(len(base), len(base)+at-offset)):]
		if t&3 == 0 {
			from = block
		} else if at > offset || offset > len(base)+at {
			return dst[:begin], false
		}
		if n > len(from) || n > size-at {
			return dst[:begin], false
		}
		copy(out[at:], from[:n])
		if at += n; t&3 == 0 {
			block = block[n:]
		}
	}
	return dst[:begin+size], at == size
}
