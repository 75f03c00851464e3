//go:build !weir_safe

package codec

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// token is one field of the encoded object. If the field is a message, the tokens of the message's
// fields follow. A token contains no pointer, so the garbage collector does not scan tokens.
type token struct {
	value uint64 // a number; for bytes, their start and, in the upper 32 bits, their end
	field uint32 // the index of the field in the decoder's fields
	span  int32  // the number of tokens, including those inside
	count int32  // in the first token of a repeated field: the number of occurrences, or found
}

// found, as the count of a token, means that the token represents a whole field with a shared
// value. The token's value is then an index in scratch.found.
const found = -1

// block returns the bytes that a token describes.
func (s *scratch) block(t *token) []byte {
	begin, end := uint32(t.value), uint32(t.value>>32)
	return s.raw[begin:end:end]
}

// tokenize splits the message s.raw[pos:end] into tokens, so that all sizes are known before the
// first allocation. It returns false if Unmarshal must decode the object.
func (m *message) tokenize(s *scratch, pos, end, depth int) bool {
	if depth == 0 {
		return false
	}
	raw, last, first := s.raw[:end], uint64(0), 0 // the previous tag, and its first token
	for pos < end {
		begin := pos
		tag := uint64(raw[pos])
		if pos++; tag >= 0x80 {
			long, n := longVarint(raw[begin:])
			if n == 0 {
				return false
			}
			tag, pos = long, begin+n
			s.unusual = s.unusual || n > 2
		}
		number := tag >> 3
		if number == 0 || number > math.MaxInt32 {
			return false
		}
		if number >= uint64(len(m.fields)) || m.fields[number].kind == none {
			s.unusual = true
			n := protowire.ConsumeFieldValue(protowire.Number(number), protowire.Type(tag&7), raw[pos:])
			if n < 0 {
				return false
			}
			pos += n
			continue
		}
		f, at := &m.fields[number], len(s.tokens)
		switch {
		case protowire.Type(tag&7) != f.wireType || tag < last:
			return false
		case tag > last:
			last, first = tag, at
			if f.shareable && s.sharing && begin != s.making {
				next, ok := s.find(m, f, begin, pos, end, depth)
				if !ok {
					return false
				}
				if next > 0 {
					pos = next
					continue
				}
			}
			if f.kind == slice || f.kind == pointer {
				s.pieces = append(s.pieces, int32(at))
			}
		case f.kind != slice && f.kind != mapping || s.tokens[first].count == found:
			// The field occurs twice or, if it is a shared slice or map, its tag has two forms.
			return false
		}
		x, next := cut(raw, pos, f.wireType)
		if next < 0 {
			return false
		}
		s.tokens = append(s.tokens, token{value: x, field: f.index, span: 1})
		s.print = (s.print ^ uint64(f.index)) * 0x100000001b3
		s.tokens[first].count++
		if f.message != nil {
			if !f.message.tokenize(s, int(uint32(x)), next, depth-1) {
				return false
			}
			s.tokens[at].span = int32(len(s.tokens) - at)
		}
		pos = next
	}
	return true
}

// cut reads the value at pos. It returns the value in the form of token.value, and the value's end,
// which is negative for an error.
func cut(raw []byte, pos int, t protowire.Type) (x uint64, end int) {
	// Nearly all blocks are short.
	if t == protowire.BytesType && pos < len(raw) && int(raw[pos]) < min(0x80, len(raw)-pos) {
		begin := uint64(pos + 1)
		end = pos + 1 + int(raw[pos])
		return begin | uint64(end)<<32, end
	}
	x, n := varint(raw, pos)
	switch t {
	case protowire.BytesType:
		begin := pos + n
		if n == 0 || x > uint64(len(raw)-begin) {
			return 0, -1
		}
		end = begin + int(x)
		return uint64(begin) | uint64(end)<<32, end
	case protowire.VarintType:
		if n == 0 {
			return 0, -1
		}
		return x, pos + n
	}
	if len(raw)-pos < 8 {
		return 0, -1
	}
	return binary.LittleEndian.Uint64(raw[pos:]), pos + 8
}

// varint reads the number at pos. n is its size in bytes, or 0 for an error.
func varint(raw []byte, pos int) (x uint64, n int) {
	if pos < len(raw) && raw[pos] < 0x80 {
		return uint64(raw[pos]), 1
	}
	return longVarint(raw[pos:])
}

func longVarint(raw []byte) (x uint64, n int) {
	if len(raw) > 1 && raw[1] < 0x80 {
		return uint64(raw[0]&0x7f) | uint64(raw[1])<<7, 2
	}
	x, n = protowire.ConsumeVarint(raw)
	return x, max(n, 0)
}

// block reads a length and the bytes after it. n is the size of both, or negative for an error.
func block(raw []byte) (b []byte, n int) {
	x, end := cut(raw, 0, protowire.BytesType)
	if end < 0 {
		return nil, -1
	}
	return raw[uint32(x):end:end], end
}
