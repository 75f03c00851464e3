package pack

import (
	"encoding/binary"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	seedLength = 8 // bytes that must be equal to continue elsewhere in the base
	indexEvery = 4 // places of the base that are in an index
	// patchSeek is the number of consecutive literals after which a patch creates an index of the next
	// bytes of the base, up to patchWindow. Before that the patch tries to continue where it can after
	// most changes: at the same distance, one or two bytes off, at the previous distance, or at the
	// distance of the two ends.
	patchSeek   = 12
	patchWindow = 1 << 10
	windowBits  = 9
)

// MaxPatched limits both versions of a patch, in bytes.
const MaxPatched = maxSibling

// AppendPatch appends to dst a patch that turns base, an earlier version of the same object, into
// raw. ok is false if it would exceed most bytes, or if one of the two is larger than MaxPatched.
//
// AppendPatch keeps nothing. It is safe for concurrent use, and so is [ApplyPatch].
func AppendPatch(dst, base, raw []byte, most int) (_ []byte, ok bool) {
	if len(base) > MaxPatched || len(raw) > MaxPatched {
		return dst, false
	}
	begin := len(dst)
	p := patcher{end: len(base) - len(raw)}
	p.encoder = encoder{dst: binary.AppendUvarint(dst, uint64(len(raw))), base: base, raw: raw, offset: len(base)}
	from := 0 // where the literals start that are not written yet
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
	// Distances from a place in raw to the one in the base: the current, the previous, and that of the
	// ends of both.
	distance, before, end int
	places                window
}

// window finds the places in a part of the base by the eight bytes at them. 0 is none, n is place
// n-1.
type window [1 << windowBits]uint16

func placeIn(x uint64) uint64 { return x * 0x9e3779b97f4a7c15 >> (64 - windowBits) }

// fill fills the window with the base's places from one on. The first of equal places remains.
func (w *window) fill(base []byte, from int) {
	clear(w[:])
	base = base[:min(len(base), from+patchWindow)]
	for at := len(base) - seedLength; at >= from; at -= indexEvery {
		w[placeIn(binary.LittleEndian.Uint64(base[at:]))] = uint16(at + 1)
	}
}

// find returns where the base continues like raw does at a place, and for how many bytes. It sets
// the distance to that. n is 0 if there is no such place; literals is the number of preceding
// literals.
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

// has reports whether the eight bytes at a place of the base are x.
func (p *patcher) has(place int, x uint64) bool {
	return place >= 0 && place <= len(p.base)-seedLength && binary.LittleEndian.Uint64(p.base[place:]) == x
}

func (p *patcher) move(at, place int) (_, n int) {
	p.before, p.distance = p.distance, place-at
	return place, equal(p.base[place:], p.raw[at:])
}

// ApplyPatch appends to dst the object of size bytes that a patch creates from base. It returns dst
// and ErrCorrupt if AppendPatch did not create the patch for the base. It keeps nothing of either.
func ApplyPatch(dst, base []byte, patch string, size int) ([]byte, error) {
	out, ok := decodeBlock(dst, base, views.Bytes(patch), size)
	if !ok {
		return dst, ErrCorrupt
	}
	return out, nil
}
