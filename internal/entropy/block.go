package entropy

// A role is what a byte of an S2 block is. The format: https://github.com/google/snappy/blob/main/format_description.txt, and S2's
// repeats in the documentation of github.com/klauspost/compress/s2.
type role uint8

const (
	literal role = iota
	tag
	low  // the first byte of an offset or length behind a tag
	high // those after the first
	roles
)

// The lowest two bits of a tag.
const (
	tagLiteral = iota
	tagCopy1
	tagCopy2
	tagCopy4
)

// operands is how many bytes belong to a tag, as far as the tag tells.
func operands(t byte) int { return int(operandsOf[t]) }

var operandsOf = func() (of [256]uint8) {
	for t := range of {
		switch t & 3 {
		case tagLiteral:
			of[t] = uint8(max(0, t>>2-59))
		case tagCopy1:
			of[t] = 1
		case tagCopy2:
			of[t] = 2
		case tagCopy4:
			of[t] = 4
		}
	}
	return of
}()

// more is how many bytes come behind the one operand of a short copy: with an offset of 0 it is a repeat, whose length may have
// up to three.
func more(t, operand byte) int {
	if t&0xe3 == tagCopy1 && operand == 0 {
		return max(0, int(t>>2&7)-4)
	}
	return 0
}

// length is how many bytes an operation makes, of its tag and its operands as a little-endian number.
func length(t byte, operand uint64) uint64 {
	switch t & 3 {
	case tagLiteral:
		if t>>2 < 60 {
			return uint64(t>>2) + 1
		}
		return operand + 1
	case tagCopy1:
		short := uint64(t >> 2 & 7)
		if more(t, byte(operand)) == 0 {
			return short + 4
		}
		base := [...]uint64{4, 1 << 8, 1 << 16}[short-5]
		return operand>>8 + base + 4
	}
	return uint64(t>>2) + 1
}

// cut cuts the first operation off a block's: its tag, its operands, and the literals that follow. It reports false for what is no
// block.
func cut(ops []byte) (t byte, operand, literals, rest []byte, ok bool) {
	t = ops[0]
	n := operands(t)
	if len(ops) <= n {
		return 0, nil, nil, nil, false
	}
	if n == 1 {
		n += more(t, ops[1])
	}
	if len(ops) <= n {
		return 0, nil, nil, nil, false
	}
	operand, rest = ops[1:n+1], ops[n+1:]
	if t&3 != tagLiteral {
		return t, operand, nil, rest, true
	}
	number := uint64(0)
	for i, b := range operand {
		number |= uint64(b) << (8 * i)
	}
	count := length(t, number)
	if count > uint64(len(rest)) {
		return 0, nil, nil, nil, false
	}
	return t, operand, rest[:count], rest[count:], true
}
