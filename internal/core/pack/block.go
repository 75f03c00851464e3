package pack

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// shortest is the minimum length of a copy, which is a part of a block that repeats bytes of the
// base. S2 has no shorter repeat.
const shortest = 4

// encoder writes an S2 block that creates raw from literal bytes and from copies of parts of base.
type encoder struct {
	dst, base, raw []byte
	offset         int // of the last copy
}

// begins reports whether base[place:] and raw[at:] have at least shortest equal bytes at their
// start.
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

// copy writes a copy of length bytes. length must be at least shortest, and offset below 64 KiB.
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

// decodeBlock appends to dst the size bytes that AppendPatch encoded as block. It accepts only
// blocks of AppendPatch, which copy only from the base. ok is false for other blocks.
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
