// Package compress has what Weir compresses with: S2 with a dictionary, entropy codes behind it,
// and gzip. Only this package imports github.com/klauspost/compress, which Kubernetes does not want
// because of its assembly; CONTRIBUTING.md has the reason for the exception.
//
// A [Coder] makes S2 blocks smaller, and decodes them. S2 has no entropy coder. Its output is
// bytes, and bytes of the same role, such as tags after literals, have similar distributions. So
// each role has a separate Huffman code. The codes are trained once, on a few typical blocks, so a
// block carries no code table: in a block of a few hundred bytes the table would cost more than it
// saves. docs/performance.md has the savings. An offset into a dictionary is usually near the
// previous offset, so the difference is coded. Decoding makes one pass, without an intermediate S2
// block.
package compress
