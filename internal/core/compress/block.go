package compress

// A role is the meaning of a byte in an S2 block. The format is described in
// https://github.com/google/snappy/blob/main/format_description.txt, and S2's repeats in the
// documentation of github.com/klauspost/compress/s2.
type role uint8

const (
	text      role = iota // a literal
	hexText               // a literal of a long hexadecimal run, such as a UID or a digest
	tag                   // the first tag, or one after a copy
	tagBehind             // a tag after literals
	high                  // the second byte of an offset of two
	near                  // the first byte, if the second is below farFrom
	far                   // the first byte otherwise
	operand               // any other byte after a tag
	roles
)

const (
	longRun = 24 // shortest run of literals that has a bit for whether it is hexadecimal
	// From farFrom on, an offset's second byte refers to the dictionary rather than back into the
	// block.
	farFrom = 0x10
)

// context is the state that one operation of a block leaves for the next.
type context struct {
	tag  role       // the role of the next tag
	lows [256]uint8 // by second byte: the first byte of the last such offset
}

// then updates the context after the operation with tag t.
func (c *context) then(t byte) {
	c.tag = tag
	if t&3 == tagLiteral {
		c.tag = tagBehind
	}
}

// offset returns how an offset's first byte is coded: its difference from the last first byte with
// the same second byte.
func (c *context) offset(first, second byte) (change byte) {
	change = first - c.lows[second]
	c.lows[second] = first
	return change
}

// low returns the role of an offset's first byte by its second byte. Most offsets into a dictionary
// are near the previous one.
func low(second byte) role {
	if second >= farFrom {
		return far
	}
	return near
}

// literal returns the role of a run of literals.
func literal(run []byte) role {
	if len(run) >= longRun && isHex(run) {
		return hexText
	}
	return text
}

// isHex reports whether a long run of literals looks hexadecimal, by its middle.
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

// operands returns how many bytes belong to a tag, as far as the tag alone determines.
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

// more returns how many bytes follow the one operand of a short copy. With offset 0 it is a repeat,
// whose length may take up to three more bytes.
func more(t, operand byte) int {
	if t&0xe3 == tagCopy1 && operand == 0 {
		return max(0, int(t>>2&7)-4)
	}
	return 0
}

// longRepeats are the shortest lengths of repeats whose length takes one, two or three bytes.
var longRepeats = [...]int{4 + 4, 1<<8 + 4, 1<<16 + 4}

// cut splits the first operation off ops: its tag, its operands, and the literals that follow. ok
// is false if ops is not from an S2 block.
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
