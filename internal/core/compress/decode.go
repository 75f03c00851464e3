package compress

import (
	"encoding/binary"
	"slices"
)

// Decode appends the decoded contents of a block to dst. coded is Append's output for the S2 block,
// and size the number of bytes that the block decodes to. The error is ErrCorrupt.
func (c *Coder) Decode(dst, coded []byte, size int) ([]byte, error) {
	return c.DecodeAgainst(c.dict, dst, coded, size)
}

// DecodeAgainst is like Decode, for a block that was made with another dictionary than the Coder's.
func (c *Coder) DecodeAgainst(dict, dst, coded []byte, size int) ([]byte, error) {
	begin := len(dst)
	dst = slices.Grow(dst, size)
	d := decoder{Coder: c, dict: dict, in: c.padded(coded), out: dst[begin:][:size], offset: len(dict)}
	d.literals.at = pad + len(coded)
	ops, ok := d.run(stream{at: pad})
	if !ok {
		return dst, ErrCorrupt
	}
	read, behind := (ops.at-pad)*8-ops.n, (pad+len(coded)-d.literals.at)*8-d.literals.n
	if (read+7)/8+(behind+7)/8 > len(coded) {
		return dst, ErrCorrupt
	}
	return dst[:begin+size], nil
}

// pad is the number of zeros before and after the coded bytes. At most that many bytes are read
// beyond them.
const pad = 16

func (c *Coder) padded(coded []byte) []byte {
	var zeros [pad]byte
	c.scratch = append(append(append(c.scratch[:0], zeros[:]...), coded...), zeros[:]...)
	return c.scratch
}

// decoder is the state of decoding one block.
type decoder struct {
	*Coder
	dict     []byte
	in       []byte
	out      []byte
	at       int // in out
	literals stream
	offset   int        // of the last copy
	lows     [256]uint8 // as context has it
}

// stream reads bits from one position on, the first one lowest. Its methods return the new stream
// instead of changing it, so that it stays in registers.
type stream struct {
	bits uint64
	n    int // of bits that are valid; there may be more, which are read again
	at   int // where the next bytes are
}

// fill makes sure that there are 56 bits, enough for five codes and one bit. After the end it adds
// zeros, and then returns false.
func (s stream) fill(in []byte) (stream, bool) {
	if s.at > len(in)-8 {
		return s, false
	}
	s.bits |= binary.LittleEndian.Uint64(in[s.at:]) << (s.n & 63)
	s.at += (63 - s.n) >> 3
	s.n |= 56
	return s, true
}

// fillBack does what fill does, with bytes that are read backwards. s.at is where the unread bytes
// end.
func (s stream) fillBack(in []byte) (stream, bool) {
	if s.at < 8 {
		return s, false
	}
	s.bits |= binary.BigEndian.Uint64(in[s.at-8:]) << (s.n & 63)
	s.at -= (63 - s.n) >> 3
	s.n |= 56
	return s, true
}

// first decodes one byte and returns it with the rest of the stream.
func (t *symbols) first(s stream) (byte, stream) {
	x := t[s.bits%(1<<maxBits)]
	return byte(x), stream{s.bits >> (x >> 8 & 63), s.n - int(x>>8), s.at}
}

// run decodes all operations. ok is false for bytes that Append did not make.
func (d *decoder) run(s stream) (_ stream, ok bool) {
	tags := &d.symbols[tag]
	for d.at < len(d.out) {
		if s, ok = s.fill(d.in); !ok {
			return s, false
		}
		var t byte
		t, s = tags.first(s)
		tags = &d.symbols[tag]
		length := int(t>>2) + 1
		switch t & 3 {
		case tagCopy2: // most frequent
			var first, second byte
			second, s = d.symbols[high].first(s)
			first, s = d.symbols[low(second)].first(s)
			d.lows[second] += first
			d.offset = int(d.lows[second]) | int(second)<<8
		case tagLiteral:
			tags = &d.symbols[tagBehind]
			if n := operands(t); n > 0 {
				length, s = d.number(s, n)
				length++
			}
			if !d.literal(length) {
				return s, false
			}
			continue
		case tagCopy1:
			length, s = d.short(t, s)
		case tagCopy4:
			d.offset, s = d.number(s, 4)
		}
		if !d.copy(length) {
			return s, false
		}
	}
	return s, true
}

// number decodes a little-endian number of n bytes, at most four.
func (d *decoder) number(s stream, n int) (number int, _ stream) {
	for i := range n {
		var b byte
		b, s = d.symbols[operand].first(s)
		number |= int(b) << (8 * i)
	}
	return number, s
}

// short decodes the offset and the length of a short copy or a repeat.
func (d *decoder) short(t byte, s stream) (length int, _ stream) {
	b, s := d.symbols[operand].first(s)
	if n := more(t, b); n > 0 {
		length, s = d.number(s, n)
		return length + longRepeats[n-1], s
	}
	if offset := int(t&0xe0)<<3 | int(b); offset > 0 {
		d.offset = offset
	}
	return int(t>>2&7) + 4, s
}

// literal decodes a run of literals.
func (d *decoder) literal(length int) bool {
	if length <= 0 || length > len(d.out)-d.at {
		return false
	}
	to := d.out[d.at:][:length]
	d.at += length
	s, ok := d.literals.fillBack(d.in)
	if !ok {
		return false
	}
	table := &d.symbols[text]
	if length >= longRun {
		isHex := s.bits&1 == uint64(hexText)
		s = stream{s.bits >> 1, s.n - 1, s.at}
		if isHex {
			table = &d.symbols[hexText]
			if to, s, ok = d.hex(to, s); !ok {
				return false
			}
		}
	}
	for len(to) >= 5 {
		a := to[:5:5]
		a[0], s = table.first(s)
		a[1], s = table.first(s)
		a[2], s = table.first(s)
		a[3], s = table.first(s)
		a[4], s = table.first(s)
		if s, ok = s.fillBack(d.in); !ok {
			return false
		}
		to = to[5:]
	}
	for i := range to {
		to[i], s = table.first(s)
	}
	d.literals = s
	return true
}

// hex decodes hexadecimal text, two bytes at a time. It returns the rest of to, fewer than ten
// bytes, which are left for table.
func (d *decoder) hex(to []byte, s stream) (_ []byte, _ stream, ok bool) {
	for len(to) >= 10 {
		a, n := (*[10]byte)(to), 0
		for range 5 {
			x := d.pairs[s.bits%(1<<maxBits)]
			a[n], a[n+1] = byte(x), byte(x>>8)
			s = stream{s.bits >> (x >> 16 & 63), s.n - int(x>>16&63), s.at}
			n += int(x >> 24)
		}
		if s, ok = s.fillBack(d.in); !ok {
			return to, s, false
		}
		to = to[n:]
	}
	return to, s, true
}

// copy copies length bytes from the dictionary or from the output.
func (d *decoder) copy(length int) bool {
	from := d.at - d.offset
	if d.offset <= 0 || length > len(d.out)-d.at {
		return false
	}
	to := d.out[d.at:][:length]
	d.at += length
	if from < 0 {
		from += len(d.dict)
		return from >= 0 && copy(to, d.dict[from:]) == length
	}
	if d.offset >= length {
		copy(to, d.out[from:])
		return true
	}
	for i := range to { // the copy includes its own output
		to[i] = d.out[from+i]
	}
	return true
}
