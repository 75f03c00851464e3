package informers

import (
	"io"

	"github.com/klauspost/compress/gzip"
)

// newGzip compresses as kube-apiserver does: at the fastest level.
func newGzip(w io.Writer) io.WriteCloser {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}
