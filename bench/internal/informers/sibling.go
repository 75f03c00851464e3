package informers

import (
	"encoding/binary"
	"slices"
)

// siblings finds parts of one length that have most of their bytes in common, as those of one
// workload's pods have: each is then held as what differs. It holds one part for each field and
// length.
type siblings map[siblingKey]part

type siblingKey struct{ field, length int }

// minGap is how many equal bytes it takes to end a difference: fewer cost more than they save.
const minGap = 16

// add returns p, as what differs from a sibling if that is small.
func (s siblings) add(field int, p part) part {
	key := siblingKey{field, len(p.bytes)}
	base, ok := s[key]
	if !ok {
		s[key] = p
		return p
	}
	delta := diff(base.bytes, p.bytes)
	if len(delta) > len(p.bytes)/2 {
		s[key] = p
		return p
	}
	if slices.Equal(base.blanks, p.blanks) {
		p.blanks = base.blanks
	}
	p.bytes, p.delta = base.bytes, delta
	return p
}

// diff says how to make b of a, which is as long: how many bytes stay, how many are others, those,
// and so on.
func diff(a, b []byte) []byte {
	var delta []byte
	done := 0
	for at := 0; at < len(a); at++ {
		if a[at] == b[at] {
			continue
		}
		end := at + 1
		for i := end; i < len(a) && i < end+minGap; i++ {
			if a[i] != b[i] {
				end = i + 1
			}
		}
		delta = binary.AppendUvarint(delta, uint64(at-done))
		delta = binary.AppendUvarint(delta, uint64(end-at))
		delta = append(delta, b[at:end]...)
		done, at = end, end
	}
	return slices.Clip(delta)
}

// patch makes dst, a copy of a, what diff was told.
func patch(dst, delta []byte) {
	for len(delta) > 0 {
		skip, n := binary.Uvarint(delta)
		delta = delta[n:]
		size, n := binary.Uvarint(delta)
		delta = delta[n:]
		dst = dst[skip:]
		copy(dst, delta[:size])
		dst, delta = dst[size:], delta[size:]
	}
}
