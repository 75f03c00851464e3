// Package entropy makes S2 blocks smaller, and decodes them.
//
// S2 has no entropy coder. Its output is bytes, and bytes of the same role, such as tags after
// literals, have similar distributions. So each role has a Huffman code of its own. The codes are
// made once, from a few blocks like those to come, so a block carries no code table: in a block of
// some hundred bytes the table would cost more than it saves. docs/performance.md has what it
// saves. An offset into a dictionary is mostly near the offset before it, so the difference is
// coded. Decoding makes one pass, without the S2 block in between.
package entropy
