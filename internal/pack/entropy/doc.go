// Package entropy makes S2 blocks smaller, and decodes them. S2 has no entropy coder: its output is
// bytes, of which those of one role, such as tags behind literals, are much like one another. Each
// role has a Huffman code of its own, made once of a few blocks that are like those to come, and so
// a block carries no table: for blocks of some hundred bytes that would be more than it saves. An
// offset into a dictionary is mostly near the one before, and so it is the difference that is
// coded. What is decoded comes out in one pass: there is no block in between.
//
// On what S2 with a dictionary leaves of a pod, 750 bytes, it saves 38 %, and a general Huffman
// coder with one table 21 %.
package entropy
