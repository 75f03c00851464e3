package compress

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// Dict is an S2 dictionary. It encodes and decodes blocks.
type Dict = s2.Dict

// MinDictBytes is the minimum size of a Dict's content.
const MinDictBytes = s2.MinDictSize

// NewDict returns a dictionary with this content, or nil unless content has MinDictBytes to 64 KiB.
// The dictionary aliases content if its capacity has 16 more bytes, and otherwise copies it. The
// encoder assumes that most inputs start like content. The first call of Encode builds the
// encoder's tables.
func NewDict(content []byte) *Dict { return s2.MakeDictManual(content, 0) }

// MaxBlockLen returns the maximum length of the block for n bytes, or a negative number if n is too
// large for S2.
func MaxBlockLen(n int) int { return s2.MaxEncodedLen(n) }

// DecodedLen returns the length of the decoded bytes, which the block states.
func DecodedLen(block []byte) (int, error) { return s2.DecodedLen(block) }

// GzipReader reads gzip.
type GzipReader = gzip.Reader

// NewGzipReader returns a reader of the gzip members in r. It reads the first member's header from
// r.
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
