package pack

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	indexBits  = 11
	indexEvery = 4 // places of the base that are in the index
	seedLength = 8 // bytes that must be equal to continue elsewhere in the base
	shortest   = 4 // length of a copy: S2 has no shorter repeat
)

// index finds places in a base by the eight bytes at them. 0 is none, n is place n-1.
type index [1 << indexBits]uint16

func placeOf(x uint64) uint64 { return x * 0x9e3779b97f4a7c15 >> (64 - indexBits) }

// places returns the index of the base. The first call creates it.
func (u *unpacked) places() *index {
	u.once.Do(func() {
		if u.index == nil {
			u.index = new(index)
		}
		clear(u.index[:])
		// The first of equal places remains.
		for at := (len(u.bytes) - seedLength) / indexEvery * indexEvery; at >= 0 && len(u.bytes) >= seedLength; at -= indexEvery {
			u.index[placeOf(binary.LittleEndian.Uint64(u.bytes[at:]))] = uint16(at + 1)
		}
	})
	return u.index
}

// encode appends an S2 block of raw against the base, like S2 with a dictionary. Siblings have most
// of their bytes in the same order, so it walks through both at the same time; where they differ it
// tries to continue at the same distance, then at the previous distance, and then at a place from
// the index. ok is false if more than most bytes are not in the base.
func (u *unpacked) encode(dst, raw []byte, most int) (_ []byte, ok bool) {
	e := encoder{dst: binary.AppendUvarint(dst, uint64(len(raw))), base: u.bytes, raw: raw, offset: len(u.bytes)}
	places := u.places()
	before := 0 // the previous distance; both are from raw to base
	distance := 0
	from, literals := 0, 0 // where the literals start that are not written yet
	for at := 0; at < len(raw); {
		n := 0
		if e.begins(at+distance, at) {
			n = equal(u.bytes[at+distance:], raw[at:])
		} else if before != distance && e.begins(at+before, at) {
			n = equal(u.bytes[at+before:], raw[at:])
			before, distance = distance, before
		}
		if n > 0 {
			e.literal(raw[from:at])
			e.copy(len(u.bytes)-distance, n)
			literals += at - from
			at += n
			from = at
			continue
		}
		if at+seedLength <= len(raw) {
			x := binary.LittleEndian.Uint64(raw[at:])
			if place := int(places[placeOf(x)]) - 1; place >= 0 && binary.LittleEndian.Uint64(u.bytes[place:]) == x {
				for at > from && place > 0 && raw[at-1] == u.bytes[place-1] {
					at, place = at-1, place-1
				}
				before, distance = distance, place-at
				continue
			}
		}
		if at++; literals+at-from > most {
			return dst, false
		}
	}
	e.literal(raw[from:])
	return e.dst, true
}

// encoder writes an S2 block.
type encoder struct {
	dst, base, raw []byte
	offset         int // of the last copy
}

// begins reports whether enough bytes for a copy are equal from a place of the base and of raw
// onward.
func (e *encoder) begins(place, at int) bool {
	return place >= 0 && place <= len(e.base)-shortest && at <= len(e.raw)-shortest &&
		binary.LittleEndian.Uint32(e.base[place:]) == binary.LittleEndian.Uint32(e.raw[at:])
}

// equal counts the equal bytes at the start of a and b.
func equal(a, b []byte) (n int) {
	most := min(len(a), len(b))
	a, b = a[:most], b[:most]
	const stride = 128 // the runtime compares this many in a few instructions
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

// The lowest bits of the S2 tags that the encoder writes, and the limits of their lengths.
const (
	tagCopy1, tagCopy2 = 1, 2
	literal1, literal2 = 60 << 2, 61 << 2 // the length has one byte, or two
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
	default: // an object is below 32 KiB
		e.dst = append(e.dst, literal2, byte(n), byte(n>>8))
	}
	e.dst = append(e.dst, b...)
}

// copy writes a copy of length bytes, at least shortest, at an offset below 64 KiB.
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

// decodeBlock appends to dst the size bytes that encode turned into a block. It accepts only such
// blocks, in which all copies are from the base. ok is false for others.
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
		case t&0xe3 == tagCopy1 && len(block) >= 4 && n == 7: // a repeat
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
