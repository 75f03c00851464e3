package entropy

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrCorrupt is returned for what Append did not make.
var ErrCorrupt = errors.New("entropy: corrupt")

// Model is the lengths of the codes: 2 KiB. It is not changed once it is made.
type Model struct {
	lengths [roles]lengths
}

// Train makes a model for blocks that are like these. What is no S2 block counts for little.
func Train(blocks ...[]byte) *Model {
	var counts [roles][256]int
	for _, block := range blocks {
		_, n := binary.Uvarint(block)
		c := context{tag: tag}
		for ops, ok := block[max(n, 0):], n > 0; ok && len(ops) > 0; {
			var t byte
			var operands, literals []byte
			if t, operands, literals, ops, ok = cut(ops); !ok {
				break
			}
			counts[c.tag][t]++
			if t&3 == tagCopy2 {
				first, second := operands[0], operands[1]
				counts[high][second]++
				counts[low(second)][first-c.lows[second]]++
				c.lows[second] = first
			} else {
				for _, b := range operands {
					counts[operand][b]++
				}
			}
			of := &counts[text]
			if len(literals) >= longRun && isHex(literals) {
				of = &counts[hexText]
			}
			for _, b := range literals {
				of[b]++
			}
			c.then(t)
		}
	}
	m := new(Model)
	for r := range counts {
		m.lengths[r] = codeFor(&counts[r])
	}
	return m
}

// Coder codes by a model. Its tables take 40 KiB. Safe for concurrent use.
type Coder struct {
	codes   [roles][256]code
	symbols [roles]symbols
}

// NewCoder makes the tables of a model.
func NewCoder(m *Model) *Coder {
	c := new(Coder)
	for r := range m.lengths {
		c.codes[r] = m.lengths[r].codes()
		m.lengths[r].symbols(&c.symbols[r])
	}
	return c
}

// Append appends the coded form of a whole S2 block to dst. It does not say how long the block, or what it decodes to, is. It
// reports false for what is no block.
func (c *Coder) Append(dst, block []byte) ([]byte, bool) {
	_, n := binary.Uvarint(block)
	if n <= 0 {
		return dst, false
	}
	w := newWriter(dst, len(block)+1)
	ctx := context{tag: tag}
	for ops, ok := block[n:], true; len(ops) > 0; {
		var t byte
		var operands, literals []byte
		if t, operands, literals, ops, ok = cut(ops); !ok {
			return dst, false
		}
		w.put(c.codes[ctx.tag][t])
		if t&3 == tagCopy2 {
			first, second := operands[0], operands[1]
			w.put(c.codes[high][second])
			w.put(c.codes[low(second)][first-ctx.lows[second]])
			ctx.lows[second] = first
		} else {
			for _, b := range operands { // with the tag no more than five codes
				w.put(c.codes[operand][b])
			}
		}
		w.flush()
		of := text
		if len(literals) >= longRun {
			if isHex(literals) {
				of = hexText
			}
			w.put(code(of) | 1<<16)
		}
		w.run(&c.codes[of], literals)
		ctx.then(t)
	}
	return w.end(), true
}

// writer collects bits, the first lowest.
type writer struct {
	dst  []byte // as long as it may get
	at   int
	bits uint64
	n    uint // of bits; below 8 after a flush
}

// newWriter makes a writer behind dst, for so many codes.
func newWriter(dst []byte, codes int) writer {
	room := codes*(maxBits+1)/8 + 16 // a bit more: some have one before them
	return writer{dst: slices.Grow(dst, room)[:len(dst)+room], at: len(dst)}
}

// put adds a code. No more than five between two flushes.
func (w *writer) put(c code) {
	w.bits |= uint64(c&0xffff) << (w.n & 63)
	w.n += uint(c >> 16)
}

func (w *writer) flush() {
	binary.LittleEndian.PutUint64(w.dst[w.at:], w.bits)
	w.at += int(w.n >> 3)
	w.bits >>= w.n &^ 7 & 63
	w.n &= 7
}

// run is put for many bytes of one role.
func (w *writer) run(codes *[256]code, bytes []byte) {
	bits, n, at := w.bits, w.n, w.at // in registers
	for len(bytes) > 0 {
		for _, b := range bytes[:min(5, len(bytes))] {
			c := codes[b]
			bits |= uint64(c&0xffff) << (n & 63)
			n += uint(c >> 16)
		}
		bytes = bytes[min(5, len(bytes)):]
		binary.LittleEndian.PutUint64(w.dst[at:], bits)
		at += int(n >> 3)
		bits >>= n &^ 7 & 63
		n &= 7
	}
	w.bits, w.n, w.at = bits, n, at
}

// end returns everything.
func (w *writer) end() []byte {
	if w.n > 0 {
		w.dst[w.at] = byte(w.bits)
		w.at++
	}
	return w.dst[:w.at]
}

// Decode appends to dst the S2 block that coded was made of: one that decodes to size bytes.
func (c *Coder) Decode(dst, coded []byte, size int) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(size))
	r := reader{src: coded}
	ctx := context{tag: tag}
	for left := uint64(size); left > 0; {
		r.fill()
		t := r.next(&c.symbols[ctx.tag])
		dst = append(dst, t)
		number := uint64(0)
		if t&3 == tagCopy2 { // most of all; after a fill there are bits for five
			second := r.next(&c.symbols[high])
			first := r.next(&c.symbols[low(second)]) + ctx.lows[second]
			ctx.lows[second] = first
			dst = append(dst, first, second)
		} else if n := operands(t); n > 0 {
			dst, number = c.operands(dst, &r, t, n)
		}
		makes := length(t, number)
		if makes > left || r.broken {
			return dst, ErrCorrupt
		}
		left -= makes
		if t&3 == tagLiteral {
			of := text
			if makes >= longRun {
				of = role(r.bit())
			}
			dst = r.run(dst, &c.symbols[of], int(makes))
		}
		ctx.then(t)
	}
	if r.broken {
		return dst, ErrCorrupt
	}
	return dst, nil
}

// operands decodes the n bytes behind a tag, and those behind them.
func (c *Coder) operands(dst []byte, r *reader, t byte, n int) ([]byte, uint64) {
	number := uint64(0)
	for i := 0; i < n; i++ {
		b := r.next(&c.symbols[operand])
		dst = append(dst, b)
		number |= uint64(b) << (8 * i)
		if i == 0 {
			n += more(t, b)
		}
		if i == 3 {
			r.fill()
		}
	}
	return dst, number
}

// reader hands out bits, the first lowest.
type reader struct {
	src    []byte
	pos    int
	bits   uint64
	n      uint // of bits that are valid; there may be more, which come again
	broken bool // it wanted more than there is
}

// fill makes sure that there are at least 56 bits, or all that are left.
func (r *reader) fill() {
	if len(r.src)-r.pos >= 8 {
		r.bits |= binary.LittleEndian.Uint64(r.src[r.pos:]) << r.n
		r.pos += int((63 - r.n) >> 3)
		r.n |= 56
		return
	}
	for ; r.n <= 56 && r.pos < len(r.src); r.pos++ {
		r.bits |= uint64(r.src[r.pos]) << r.n
		r.n += 8
	}
}

// next decodes one byte. Without a fill there may be five.
func (r *reader) next(s *symbols) byte {
	x := s[r.bits%(1<<maxBits)]
	n := uint(x >> 8)
	r.broken = r.broken || n > r.n
	r.bits >>= n & 63
	r.n -= min(n, r.n)
	return byte(x)
}

// bit is one bit as it is; it may come behind five codes.
func (r *reader) bit() uint8 {
	r.broken = r.broken || r.n == 0
	b := uint8(r.bits & 1)
	r.bits >>= 1
	r.n -= min(1, r.n)
	return b
}

// run decodes count bytes of one role.
func (r *reader) run(dst []byte, s *symbols, count int) []byte {
	at := len(dst)
	dst = slices.Grow(dst, count)[:at+count]
	bits, n, pos, src := r.bits, r.n, r.pos, r.src // in registers
	for ; len(dst)-at >= 5 && len(src)-pos >= 8; at += 5 {
		bits |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		to := dst[at : at+5 : at+5]
		for i := range to {
			x := s[bits%(1<<maxBits)]
			to[i] = byte(x)
			bits >>= x >> 8 & 63
			n -= uint(x >> 8)
		}
	}
	r.bits, r.n, r.pos = bits, n, pos
	for ; at < len(dst) && !r.broken; at++ {
		if r.n < maxBits {
			r.fill()
		}
		dst[at] = r.next(s)
	}
	return dst
}
