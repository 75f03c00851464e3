package compress

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrCorrupt is returned for bytes that Append did not make.
var ErrCorrupt = errors.New("entropy: corrupt")

// Model holds the lengths of all codes, 2 KiB. It is immutable once made.
type Model struct {
	lengths [roles]lengths
}

// Train returns a model for blocks like the given ones. Parts that are not S2 blocks count for
// little.
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
				counts[low(second)][c.offset(first, second)]++
			} else {
				for _, b := range operands {
					counts[operand][b]++
				}
			}
			of := &counts[literal(literals)]
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

// Coder codes and decodes S2 blocks that were made with a dictionary. Its tables have 48 KiB. One
// goroutine at a time may use it.
type Coder struct {
	dict    []byte
	codes   [roles][256]code
	symbols [roles]symbols
	pairs   pairs // for hexText
	scratch []byte
}

// NewCoder returns a Coder with the tables of a model. dict is the dictionary of the blocks and may
// be empty. A repeat at the start of a block refers to the dictionary's beginning.
func NewCoder(m *Model, dict []byte) *Coder {
	c := &Coder{dict: dict}
	for r := range m.lengths {
		c.codes[r] = m.lengths[r].codes()
		m.lengths[r].symbols(&c.symbols[r])
	}
	c.symbols[hexText].pairs(&c.pairs)
	return c
}

// Append codes a whole S2 block and appends the result to dst. The operations are at the start, and
// the literals at the end in reverse, so that a processor can decode both in parallel. The coded
// block contains neither its own length nor the decoded size. ok is false if block is not an S2
// block.
func (c *Coder) Append(dst, block []byte) ([]byte, bool) {
	_, n := binary.Uvarint(block)
	if n <= 0 {
		return dst, false
	}
	begin := len(dst)
	w, l := newWriter(dst, len(block)), newWriter(c.scratch[:0], len(block))
	ctx := context{tag: tag}
	for ops, ok := block[n:], true; len(ops) > 0; {
		var t byte
		var operands, literals []byte
		if t, operands, literals, ops, ok = cut(ops); !ok {
			return dst[:begin], false
		}
		w.put(c.codes[ctx.tag][t])
		if t&3 == tagCopy2 {
			first, second := operands[0], operands[1]
			w.put(c.codes[high][second])
			w.put(c.codes[low(second)][ctx.offset(first, second)])
		} else {
			for _, b := range operands { // with the tag, at most five codes
				w.put(c.codes[operand][b])
			}
		}
		w.flush()
		of := literal(literals)
		if len(literals) >= longRun {
			l.put(code(of) | 1<<16)
		}
		l.run(&c.codes[of], literals)
		ctx.then(t)
	}
	c.scratch = l.end()
	slices.Reverse(c.scratch)
	return append(w.end(), c.scratch...), true
}

// writer collects bits, the first one lowest.
type writer struct {
	dst  []byte // allocated at the greatest possible length
	at   int
	bits uint64
	n    uint // of bits; below 8 after a flush
}

// newWriter returns a writer that appends to dst, with room for this number of codes.
func newWriter(dst []byte, codes int) writer {
	room := codes*(maxBits+1)/8 + 16 // one bit more: some codes have one before them
	return writer{dst: slices.Grow(dst, room)[:len(dst)+room], at: len(dst)}
}

// put adds a code. At most five codes may be put between two flushes.
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

// run puts the codes of many bytes of one role.
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

// end returns dst with everything written.
func (w *writer) end() []byte {
	if w.n > 0 {
		w.dst[w.at] = byte(w.bits)
		w.at++
	}
	return w.dst[:w.at]
}
