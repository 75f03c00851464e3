package compress

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxBits is the length of the longest code, in bits.
const maxBits = 11

// lengths are the lengths in bits of the codes of a Huffman code. Every byte has a code.
type lengths [256]uint8

// seen is how much more likely a byte that occurred once is than one that never occurred. Few
// blocks are counted, and there are many byte values.
const seen = 8

// codeFor returns the code lengths for bytes with these counts. Every byte gets a code, because any
// may occur.
func codeFor(counts *[256]int) (l lengths) {
	nodes := make([]node, 256, 256*maxBits)
	single := make([]int, 256)
	for b := range single {
		nodes[b].weight = max(1, seen*counts[b])
		single[b] = b
	}
	byWeight := func(a, b int) int { return cmp.Compare(nodes[a].weight, nodes[b].weight) }
	slices.SortStableFunc(single, byWeight)
	// Package-merge: in each step, as often as the longest code, pairs of the previous step are merged
	// with the single bytes. In the end, a byte's code length is how often it is among the first
	// 2*255.
	merged := single
	for range maxBits - 1 {
		step := slices.Clone(single)
		for i := 0; i+1 < len(merged); i += 2 {
			nodes = append(nodes, node{nodes[merged[i]].weight + nodes[merged[i+1]].weight, merged[i : i+2]})
			step = append(step, len(nodes)-1)
		}
		slices.SortStableFunc(step, byWeight)
		merged = step
	}
	l.count(nodes, merged[:2*255])
	return l
}

// node is a byte, if it is one of the first 256 nodes, or a pair of nodes.
type node struct {
	weight int
	pair   []int
}

// count adds one to the length of each byte in the nodes of in.
func (l *lengths) count(nodes []node, in []int) {
	for _, n := range in {
		if n < len(l) {
			l[n]++
		}
		l.count(nodes, nodes[n].pair)
	}
}

// code holds the bits of a code, the first one lowest, and from bit 16 on their number.
type code uint32

// codes returns the canonical codes of these lengths. Codes of one length are ordered by byte.
func (l *lengths) codes() (out [256]code) {
	next := uint16(0)
	for n := uint8(1); n <= maxBits; n++ {
		next <<= 1
		for b := range l {
			if l[b] == n {
				out[b] = code(bits.Reverse16(next)>>(16-n)) | code(n)<<16
				next++
			}
		}
	}
	return out
}

// symbols is a decoding table by the next maxBits bits. An entry holds the byte that they begin
// with, and above it the length of its code.
type symbols [1 << maxBits]uint16

func (l *lengths) symbols(out *symbols) {
	for b, c := range l.codes() {
		for at := int(c & 0xffff); at < len(out); at += 1 << (c >> 16) {
			out[at] = uint16(b) | uint16(c>>16)<<8
		}
	}
}

// pairs is a decoding table by the next maxBits bits, for two bytes at once, or one if they hold no
// second. From the lowest bits on, an entry holds the first byte, the second byte, the number of
// bits, and the number of bytes.
type pairs [1 << maxBits]uint32

// pairs sets out to the table for two bytes at once.
func (s *symbols) pairs(out *pairs) {
	for at, x := range s {
		one, taken := uint32(x&0xff), uint32(x>>8)
		y := s[at>>taken]
		if both := taken + uint32(y>>8); both <= maxBits {
			out[at] = one | uint32(y&0xff)<<8 | both<<16 | 2<<24
		} else {
			out[at] = one | taken<<16 | 1<<24
		}
	}
}
