package compress

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// Dict is an S2 dictionary. Its methods encode and decode blocks.
type Dict = s2.Dict

// MinDictBytes is the minimum size of a Dict's content.
const MinDictBytes = s2.MinDictSize

// NewDict returns a dictionary with this content. It returns nil if content is shorter than
// MinDictBytes or longer than 64 KiB. The dictionary aliases content if the capacity of content
// exceeds its length by at least 16 bytes, and otherwise copies it. The encoder assumes that most
// inputs start like content. The first call of Encode builds the encoder's tables.
func NewDict(content []byte) *Dict { return s2.MakeDictManual(content, 0) }

// MaxBlockLen returns the maximum length of a block that encodes n bytes, or a negative number if n
// is too large for S2.
func MaxBlockLen(n int) int { return s2.MaxEncodedLen(n) }

// DecodedLen returns the length of the decoded bytes. It reads that length from the start of the
// block.
func DecodedLen(block []byte) (int, error) { return s2.DecodedLen(block) }

// GzipReader reads gzip.
type GzipReader = gzip.Reader

// NewGzipReader returns a reader of the gzip members in r. It reads the header of the first member
// from r before it returns.
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
