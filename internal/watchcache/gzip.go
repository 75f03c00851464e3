package watchcache

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipWriter compresses fast rather than well: most clients are near.
type gzipWriter struct{ *gzip.Writer }

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic("watchcache: gzip.BestSpeed is no level: " + err.Error())
	}
	return w
}}

// newGzipWriter begins a member. Release it when done.
func newGzipWriter(w io.Writer) *gzipWriter {
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(w)
	return &gzipWriter{z}
}

func (z *gzipWriter) release() {
	z.Reset(io.Discard)
	gzipWriters.Put(z.Writer)
	z.Writer = nil
}
