package wire

import "encoding/binary"

// Wire types of protobuf.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeGroup   = 3
	typeEnd     = 4
	typeFixed32 = 5
)

const (
	maxFieldNumber = 1<<29 - 1
	// maxGroups bounds the nesting of groups. Kubernetes has no groups; they are skipped.
	maxGroups = 32
)

// Results of the functions that consume, in place of an index.
const (
	protoTruncated = -1
	protoMalformed = -2
)

// protoField is one field of a message.
type protoField struct {
	num    uint32
	typ    uint8
	varint uint64 // of typeVarint, typeFixed32 and typeFixed64
	bytes  []byte // of typeBytes
}

// consumeVarint reads the varint at b[i:]. It returns the index after it, or one of the negative
// results.
func consumeVarint(b []byte, i int) (uint64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return consumeLongVarint(b, i)
}

func consumeLongVarint(b []byte, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		if i >= len(b) {
			return 0, protoTruncated
		}
		c := b[i]
		i++
		if shift == 63 && c > 1 {
			return 0, protoMalformed
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i
		}
	}
	return 0, protoMalformed
}

func consumeFixed64(b []byte, i int) (uint64, int) {
	if len(b)-i < 8 {
		return 0, protoTruncated
	}
	return binary.LittleEndian.Uint64(b[i:]), i + 8
}

// consume reads the field at b[i:] into f. It returns the index after it, or one of the negative
// results. It skips the content of a group: f then has only number and type.
func (f *protoField) consume(b []byte, i int) int {
	tag, i := consumeVarint(b, i)
	if i < 0 {
		return i
	}
	if tag>>3 == 0 || tag>>3 > maxFieldNumber {
		return protoMalformed
	}
	f.num, f.typ = uint32(tag>>3), uint8(tag&7)
	switch f.typ {
	case typeVarint:
		f.varint, i = consumeVarint(b, i)
		return i
	case typeBytes:
		n, i := consumeVarint(b, i)
		if i < 0 {
			return i
		}
		if n > uint64(len(b)-i) {
			return protoTruncated
		}
		f.bytes = b[i : i+int(n)]
		return i + int(n)
	case typeFixed64:
		f.varint, i = consumeFixed64(b, i)
		return i
	case typeFixed32:
		if len(b)-i < 4 {
			return protoTruncated
		}
		f.varint = uint64(binary.LittleEndian.Uint32(b[i:]))
		return i + 4
	case typeGroup:
		return skipGroup(b, i, f.num)
	}
	return protoMalformed
}

// skipGroup returns the index after the group num whose content starts at b[i:], or one of the
// negative results.
func skipGroup(b []byte, i int, num uint32) int {
	var open [maxGroups]uint32
	open[0] = num
	for depth := 1; depth > 0; {
		tag, next := consumeVarint(b, i)
		if next < 0 {
			return next
		}
		num := tag >> 3
		switch tag & 7 {
		case typeGroup:
			if num == 0 || num > maxFieldNumber || depth == maxGroups {
				return protoMalformed
			}
			open[depth] = uint32(num)
			depth++
			i = next
		case typeEnd:
			depth--
			if num != uint64(open[depth]) {
				return protoMalformed
			}
			i = next
		default:
			var f protoField
			if i = f.consume(b, i); i < 0 {
				return i
			}
		}
	}
	return i
}

// fieldError returns the error for the field at offset, for which consume returned result.
func fieldError(offset int64, what string, result int) error {
	if result == protoTruncated {
		return malformed(offset, what+": a field runs beyond its message")
	}
	return malformed(offset, what+": not a protobuf field")
}

func appendTag(dst []byte, num uint32, typ uint8) []byte {
	return binary.AppendUvarint(dst, uint64(num)<<3|uint64(typ))
}

func appendBytes[T string | []byte](dst []byte, num uint32, v T) []byte {
	dst = appendTag(dst, num, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// varintSize returns the size of v as a varint.
func varintSize(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}
