package entropy

// A role is what a byte of an S2 block is. The format:
// https://github.com/google/snappy/blob/main/format_description.txt, and S2's repeats in the
// documentation of github.com/klauspost/compress/s2.
type role uint8

const (
	text      role = iota // a literal,
	hexText               // and one of a long run that is hexadecimal: a UID, a digest
	tag                   // first of all, or behind a copy,
	tagBehind             // and behind literals
	high                  // the second byte of an offset that has two,
	near                  // and the first, where the second is small,
	far                   // and where it is not
	operand               // any other byte behind a tag
	roles
)

const (
	longRun = 24   // literals in a row from which on a bit says whether they are hexadecimal
	farFrom = 0x10 // the second byte of offsets that lead into a dictionary rather than back in the block
)

// context is what one operation of a block tells of the next.
type context struct {
	tag  role       // the role of the next tag
	lows [256]uint8 // the first byte of the last offset that had this second one
}

// then notes the operation that is through.
func (c *context) then(t byte) {
	c.tag = tag
	if t&3 == tagLiteral {
		c.tag = tagBehind
	}
}

// offset is what is coded of an offset's first byte, when its second is this.
func (c *context) offset(first, second byte) (change byte) {
	change = first - c.lows[second]
	c.lows[second] = first
	return change
}

// low is the role of the first byte of an offset, whose second byte is this. Most offsets into a
// dictionary are near the one before: what is coded is how far.
func low(second byte) role {
	if second >= farFrom {
		return far
	}
	return near
}

// literal is the role of literals in a row.
func literal(run []byte) role {
	if len(run) >= longRun && isHex(run) {
		return hexText
	}
	return text
}

// isHex judges a long run of literals by its middle.
func isHex(run []byte) bool {
	for _, b := range run[len(run)/2-4:][:8] {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') && b != '-' {
			return false
		}
	}
	return true
}

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

// more is how many bytes come behind the one operand of a short copy: with an offset of 0 it is a
// repeat, whose length may have up to three.
func more(t, operand byte) int {
	if t&0xe3 == tagCopy1 && operand == 0 {
		return max(0, int(t>>2&7)-4)
	}
	return 0
}

// longRepeats is how long a repeat is at least that has one, two or three bytes to say so.
var longRepeats = [...]int{4 + 4, 1<<8 + 4, 1<<16 + 4}

// cut cuts the first operation off a block's: its tag, its operands, and the literals that follow.
// It reports false for what is no block.
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
	count := uint64(t>>2) + 1
	if len(operand) > 0 {
		count = 1
		for i, b := range operand {
			count += uint64(b) << (8 * i)
		}
	}
	if count > uint64(len(rest)) {
		return 0, nil, nil, nil, false
	}
	return t, operand, rest[:count], rest[count:], true
}
