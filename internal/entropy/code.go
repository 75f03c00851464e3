package entropy

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxBits is the length of the longest code.
const maxBits = 11

// lengths are the lengths of a Huffman code, in bits. Every byte has one.
type lengths [256]uint8

// codeFor makes the code for bytes that come so often. None is counted as less than one: any may come.
func codeFor(counts *[256]int) (l lengths) {
	type item struct {
		weight int
		bytes  []uint8 // all that are in it, once for each time they are
	}
	single := make([]item, 256)
	for b := range single {
		single[b] = item{max(1, counts[b]), []uint8{uint8(b)}}
	}
	byWeight := func(a, b item) int { return cmp.Compare(a.weight, b.weight) }
	slices.SortStableFunc(single, byWeight)
	// Package-merge: pairs of what there was a step before go in among the single ones, as often as a code may be long. In the
	// end a byte is as often among the first 2*255 as its code is long.
	merged := single
	for range maxBits - 1 {
		var pairs []item
		for i := 0; i+1 < len(merged); i += 2 {
			pairs = append(pairs, item{merged[i].weight + merged[i+1].weight, slices.Concat(merged[i].bytes, merged[i+1].bytes)})
		}
		merged = slices.Concat(single, pairs)
		slices.SortStableFunc(merged, byWeight)
	}
	for _, it := range merged[:2*255] {
		for _, b := range it.bytes {
			l[b]++
		}
	}
	return l
}

// code is the bits of one byte, the first of them lowest, and above 16 bits how many they are.
type code uint32

// codes are the canonical codes of these lengths: those of one length are in order.
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

// symbols is a table by the next maxBits bits: the byte they begin with, and above it how many bits it takes.
type symbols [1 << maxBits]uint16

func (l *lengths) symbols(out *symbols) {
	for b, c := range l.codes() {
		for at := int(c & 0xffff); at < len(out); at += 1 << (c >> 16) {
			out[at] = uint16(b) | uint16(c>>16)<<8
		}
	}
}
