package pack

import (
	"encoding/binary"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	seedLength = 8 // number of equal bytes with which a copy at another distance must start
	indexEvery = 4 // the distance of two indexed places of the base
	// patchSeek is the number of consecutive literals after which a patch builds an index of the next
	// patchWindow bytes of the base. Before that, the patch tries the distances (from a place in raw
	// to the equal bytes in base) that fit after most changes: the current one, one or two bytes more
	// or less, the previous one, and the distance of the two ends.
	patchSeek   = 12
	patchWindow = 1 << 10
	windowBits  = 9
)

// MaxPatched is the maximum size of base and of raw in AppendPatch, in bytes.
const MaxPatched = maxSibling

// AppendPatch appends a patch to dst that turns base, an earlier version of the same object, into
// raw. ok is false if the patch would be longer than most bytes, or if base or raw is larger than
// MaxPatched.
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
	// Distances from a place in raw to the corresponding place in the base: the current distance,
	// the previous distance, and the distance of the two ends.
	distance, before, end int
	places                window
}

// window maps the hash of eight bytes of the base to the place of these bytes. 0 means that there
// is no place, and n means place n-1.
type window [1 << windowBits]uint16

func placeIn(x uint64) uint64 { return x * 0x9e3779b97f4a7c15 >> (64 - windowBits) }

// fill fills the window with places of the base, starting at from. If several places have the same
// bytes, the window contains the first.
func (w *window) fill(base []byte, from int) {
	clear(w[:])
	base = base[:min(len(base), from+patchWindow)]
	for at := len(base) - seedLength; at >= from; at -= indexEvery {
		w[placeIn(binary.LittleEndian.Uint64(base[at:]))] = uint16(at + 1)
	}
}

// find returns a place in the base from which on n bytes equal those of raw[at:]. It sets
// p.distance to place - at. n is 0 if there is no such place. literals is the number of literals
// before at.
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
// in bytes. If the patch and the base do not fit together, ApplyPatch returns dst and ErrCorrupt,
// but it does not notice every wrong base. It retains neither base nor patch.
func ApplyPatch(dst, base []byte, patch string, size int) ([]byte, error) {
	out, ok := decodeBlock(dst, base, views.Bytes(patch), size)
	if !ok {
		return dst, ErrCorrupt
	}
	return out, nil
}
