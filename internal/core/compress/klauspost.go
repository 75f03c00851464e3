package compress

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// Dict is a dictionary of S2. It encodes blocks, and decodes them again.
type Dict = s2.Dict

// MinDictBytes is the smallest content of a Dict.
const MinDictBytes = s2.MinDictSize

// NewDict returns a dictionary of at least MinDictBytes and at most 64 KiB, or nil. It aliases
// content if that has room for 16 more bytes, and copies it otherwise. Encoded bytes most often
// start like content. The first call that encodes makes tables for that.
func NewDict(content []byte) *Dict { return s2.MakeDictManual(content, 0) }

// MaxBlockLen returns the largest length of a block of n bytes, or a negative number if n is too
// large for S2.
func MaxBlockLen(n int) int { return s2.MaxEncodedLen(n) }

// DecodedLen returns the length that a block states for its decoded bytes.
func DecodedLen(block []byte) (int, error) { return s2.DecodedLen(block) }

// GzipReader reads gzip.
type GzipReader = gzip.Reader

// NewGzipReader returns a reader of the gzip members of r. It reads the first header.
func NewGzipReader(r io.Reader) (*GzipReader, error) { return gzip.NewReader(r) }

// GzipWriter writes gzip.
type GzipWriter = gzip.Writer

// NewFastGzipWriter returns a writer at the fastest level.
func NewFastGzipWriter(w io.Writer) *GzipWriter {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic("compress: gzip.BestSpeed is no level: " + err.Error())
	}
	return z
}
