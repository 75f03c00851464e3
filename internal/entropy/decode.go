package entropy

import (
	"encoding/binary"
	"slices"
)

// Decode appends to dst what the S2 block that coded was made of decodes to: size bytes.
func (c *Coder) Decode(dst, coded []byte, size int) ([]byte, error) {
	begin := len(dst)
	dst = slices.Grow(dst, size)
	d := decoder{Coder: c, in: c.padded(coded), out: dst[begin:][:size], tag: tag}
	d.offset = len(c.dict)
	d.ops.at, d.literals.at = pad, pad+len(coded)
	for d.at < size {
		if !d.step() {
			return dst, ErrCorrupt
		}
	}
	read := (d.ops.at-pad)*8 - d.ops.n
	behind := (pad+len(coded)-d.literals.at)*8 - d.literals.n
	if (read+7)/8+(behind+7)/8 > len(coded) {
		return dst, ErrCorrupt
	}
	return dst[:begin+size], nil
}

// pad is how many zeros there are before and behind what is decoded: as many bytes as may be read beyond it.
const pad = 16

func (c *Coder) padded(coded []byte) []byte {
	var zeros [pad]byte
	c.scratch = append(append(append(c.scratch[:0], zeros[:]...), coded...), zeros[:]...)
	return c.scratch
}

// decoder is the state of decoding one block.
type decoder struct {
	*Coder
	in            []byte
	out           []byte
	at            int // in out
	ops, literals stream
	offset        int // of the last copy
	tag           role
	lows          [256]uint8 // as context has it
}

// stream is bits that are read from one place on, the first lowest. Its methods return what it is then: so it stays in registers.
type stream struct {
	bits uint64
	n    int // of bits that are valid; there may be more, which come again
	at   int // where the next bytes are
}

// fill makes sure that there are 56 bits, enough for five codes and one bit. Behind the end come zeros, and then false.
func (s stream) fill(in []byte) (stream, bool) {
	if s.at > len(in)-8 {
		return s, false
	}
	s.bits |= binary.LittleEndian.Uint64(in[s.at:]) << (s.n & 63)
	s.at += (63 - s.n) >> 3
	s.n |= 56
	return s, true
}

// fillBack is fill for what is read backwards: at is where the bytes end.
func (s stream) fillBack(in []byte) (stream, bool) {
	if s.at < 8 {
		return s, false
	}
	s.bits |= binary.BigEndian.Uint64(in[s.at-8:]) << (s.n & 63)
	s.at -= (63 - s.n) >> 3
	s.n |= 56
	return s, true
}

// next decodes one byte.
func (s stream) next(t *symbols) (byte, stream) {
	x := t[s.bits%(1<<maxBits)]
	return byte(x), stream{s.bits >> (x >> 8 & 63), s.n - int(x>>8), s.at}
}

// step decodes one operation. It reports false for what Append did not make.
func (d *decoder) step() bool {
	s, ok := d.ops.fill(d.in)
	if !ok {
		return false
	}
	t, s := s.next(&d.symbols[d.tag])
	d.tag = tag
	length := int(t>>2) + 1
	switch t & 3 {
	case tagCopy2: // most of all
		var first, second byte
		second, s = s.next(&d.symbols[high])
		first, s = s.next(&d.symbols[low(second)])
		d.lows[second] += first
		d.offset = int(d.lows[second]) | int(second)<<8
	case tagLiteral:
		d.tag = tagBehind
		if n := operands(t); n > 0 {
			length, s = d.number(s, n)
			length++
		}
		d.ops = s
		return d.run(length)
	case tagCopy1:
		length, s = d.short(t, s)
	case tagCopy4:
		d.offset, s = d.number(s, 4)
	}
	d.ops = s
	return d.copy(length)
}

// number decodes a little-endian number of n bytes, no more than four.
func (d *decoder) number(s stream, n int) (number int, _ stream) {
	for i := range n {
		var b byte
		b, s = s.next(&d.symbols[operand])
		number |= int(b) << (8 * i)
	}
	return number, s
}

// short decodes a short copy, or a repeat: its offset and length.
func (d *decoder) short(t byte, s stream) (length int, _ stream) {
	b, s := s.next(&d.symbols[operand])
	if n := more(t, b); n > 0 {
		length, s = d.number(s, n)
		return length + longRepeats[n-1], s
	}
	if offset := int(t&0xe0)<<3 | int(b); offset > 0 {
		d.offset = offset
	}
	return int(t>>2&7) + 4, s
}

// run decodes literals.
func (d *decoder) run(length int) bool {
	if length <= 0 || length > len(d.out)-d.at {
		return false
	}
	to := d.out[d.at:][:length]
	d.at += length
	s, table := d.literals, &d.symbols[text]
	for first := true; len(to) > 0; first = false {
		var ok bool
		if s, ok = s.fillBack(d.in); !ok {
			return false
		}
		if first && length >= longRun {
			if s.bits&1 == uint64(hexText) {
				table = &d.symbols[hexText]
			}
			s = stream{s.bits >> 1, s.n - 1, s.at}
		}
		some := to[:min(5, len(to))]
		for i := range some {
			some[i], s = s.next(table)
		}
		to = to[len(some):]
	}
	d.literals = s
	return true
}

// copy copies from the dictionary, or from what is there already.
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
	for i := range to { // what is copied is made of itself
		to[i] = d.out[from+i]
	}
	return true
}
