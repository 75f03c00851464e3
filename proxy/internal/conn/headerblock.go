package conn

// headerBlock counts the fields of an HTTP/2 header block while it is received, without decoding
// it. One byte may represent a whole field of the HPACK table, so the number of bytes says little
// about the memory of the decoded head (RFC 7541). For an invalid block the count is wrong. That
// does not matter, because the server closes the connection.
type headerBlock struct {
	fields int
	bytes  int

	state blockState
	// left is the part of an integer that was read so far, or the number of bytes of a string that are
	// still to be read.
	left  uint64
	shift uint
	// strings is the number of strings of the field that follow the integer and are still to be read.
	strings int
}

// blockState says what the next byte of a header block is.
type blockState uint8

const (
	blockField  blockState = iota // the first byte of a field
	blockIndex                    // the rest of an index, or of a new size of the HPACK table
	blockLength                   // the first byte of a string
	blockLong                     // the rest of the length of a string
	blockText                     // the text of a string
)

// write counts the fields in p, the next bytes of the block.
func (hb *headerBlock) write(p []byte) {
	hb.bytes += len(p)
	for len(p) > 0 {
		if hb.state == blockText {
			n := min(hb.left, uint64(len(p)))
			hb.left -= n
			if p = p[n:]; hb.left == 0 {
				hb.next()
			}
			continue
		}
		hb.step(p[0])
		p = p[1:]
	}
}

// step processes one byte that is not text of a string.
func (hb *headerBlock) step(b byte) {
	switch hb.state {
	case blockField:
		hb.begin(b)
	case blockLength:
		hb.integer(b, 7, blockLong)
	case blockIndex, blockLong:
		hb.left += uint64(b&0x7f) << hb.shift
		hb.shift = min(hb.shift+7, 63)
		if b&0x80 == 0 {
			hb.done()
		}
	}
}

// begin processes the first byte of a field, or of an update of the HPACK table's size.
func (hb *headerBlock) begin(b byte) {
	hb.strings = 0
	switch {
	case b&0x80 != 0: // a field from the table
		hb.fields++
		hb.integer(b, 7, blockIndex)
	case b&0xe0 == 0x20: // a new size of the table
		hb.integer(b, 5, blockIndex)
	default: // a value, after a name if the index is 0
		prefix := uint(4)
		if b&0x40 != 0 {
			prefix = 6
		}
		hb.fields++
		if hb.strings = 1; b&(1<<prefix-1) == 0 {
			hb.strings = 2
		}
		hb.integer(b, prefix, blockIndex)
	}
}

// integer processes the first byte of an integer. The integer starts in the lowest bits of b;
// prefix is the number of these bits.
func (hb *headerBlock) integer(b byte, prefix uint, more blockState) {
	most := uint64(1)<<prefix - 1
	hb.state, hb.shift = more, 0
	if hb.left = uint64(b) & most; hb.left < most {
		hb.done()
	}
}

// done continues after an integer is complete.
func (hb *headerBlock) done() {
	if hb.state == blockLong {
		hb.strings--
		if hb.left > 0 {
			hb.state = blockText
			return
		}
	}
	hb.next()
}

// next continues after a complete string or index.
func (hb *headerBlock) next() {
	hb.left = 0
	if hb.state = blockField; hb.strings > 0 {
		hb.state = blockLength
	}
}

// memory estimates the memory of the decoded fields, in bytes. It counts two bytes for each
// received byte, because the compression needs at least 5 bits for a character of 8 bits.
func (hb *headerBlock) memory() int64 {
	return int64(hb.fields*fieldBytes + 2*hb.bytes)
}
