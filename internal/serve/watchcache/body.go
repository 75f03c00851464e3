package watchcache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/serve/budget"
)

// gzipAbove is the size in bytes above which a LIST body is gzipped for clients that accept it.
const gzipAbove = 128 << 10

// maxHTTP2Write is the size of one write over HTTP/2. With the frame's header it fills one TLS
// record. A frame of 16 KiB would need a second record for its last bytes, and one more system
// call.
const maxHTTP2Write = 16<<10 - 9

// buffers pools buffers of gzipAbove bytes for LIST bodies.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, gzipAbove); return &b }}

// body writes the body of a LIST. A body that fits into its buffer is sent uncompressed, with a
// Content-Length. A larger body is streamed, so memory is bounded by the buffer.
type body struct {
	w           http.ResponseWriter
	ctx         context.Context // of the request
	deadline    *writeDeadline
	acceptsGzip bool // the client accepts gzip
	maxWrite    int  // largest single write, in bytes
	buf         *[]byte
	started     bool
	gzip        *gzipWriter // nil: not compressed
	clientGone  bool        // the client has gone
	payer       *Payer      // of what the body takes; nil: it is not counted
	charge      *budget.Charge
	scratch     int64 // the charged bytes of other buffers, see hold
}

// newBody returns the body of a LIST whose page takes a number of bytes. The caller must end it.
// The error is ErrUnread.
func (c *Cache) newBody(w http.ResponseWriter, r *http.Request, page int64) (*body, error) {
	p := payerOf(r.Context())
	charge, err := p.charge(gzipAbove + page)
	if err != nil {
		return nil, err
	}
	b := &body{
		payer: p, charge: charge,
		w: w, ctx: r.Context(), deadline: c.readWrites.start(w), acceptsGzip: request.AcceptsGzip(r.Header), maxWrite: gzipAbove, buf: buffers.Get().(*[]byte),
	}
	if r.ProtoMajor == 2 && !c.buffersWrites {
		b.maxWrite = maxHTTP2Write
	}
	b.deadline.beginState(listRate)
	return b, nil
}

// hold charges the bytes that buffers for single objects have come to. The error is ErrUnread.
func (b *body) hold(n int) error {
	more := int64(n) - b.scratch
	if b.charge == nil || more <= 0 {
		return nil
	}
	if b.charge.Grow(more) != nil {
		return ErrUnread
	}
	b.scratch += more
	return nil
}

// Write appends p to the body.
func (b *body) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(*b.buf) == gzipAbove {
			if err := b.flush(); err != nil {
				return n - len(p), err
			}
		}
		take := min(len(p), gzipAbove-len(*b.buf))
		*b.buf = append(*b.buf, p[:take]...)
		p = p[take:]
	}
	return n, nil
}

// appendObject unpacks an object straight into the buffer. It reports false and appends nothing if
// there is no room.
func (b *body) appendObject(o *store.Object) (done bool, err error) {
	if o.Size() > cap(*b.buf)-len(*b.buf) {
		return false, nil
	}
	*b.buf, err = o.AppendRaw(*b.buf)
	return true, err
}

// flush writes the buffer. The first flush settles that the body is a large one. It writes nothing
// for a caller who has gone, because not every writer reports that.
func (b *body) flush() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if !b.started {
		b.started = true
		b.w.Header().Add("Vary", "Accept-Encoding")
		if b.acceptsGzip && b.affordsGzip() {
			b.w.Header().Set("Content-Encoding", "gzip")
			b.gzip = newGzipWriter(b.w)
		}
		b.w.WriteHeader(http.StatusOK)
	}
	err := b.bounded(b.send)
	*b.buf = (*b.buf)[:0]
	return err
}

// affordsGzip charges the compressor, and reports whether the caller may have one.
func (b *body) affordsGzip() bool {
	return b.charge == nil || b.payer.affords(gzipBytes) && b.charge.Grow(gzipBytes) == nil
}

// bounded bounds the time that write may take to write to the client.
func (b *body) bounded(write func() error) error {
	err := b.deadline.during(write)
	b.clientGone = err != nil && !errors.Is(err, errTooSlow)
	return err
}

// send writes what the buffer holds to the client.
func (b *body) send() (err error) {
	if b.gzip != nil {
		_, err = b.gzip.Write(*b.buf)
	} else {
		for p := *b.buf; len(p) > 0 && err == nil; {
			n := min(len(p), b.maxWrite)
			_, err = b.w.Write(p[:n])
			p = p[n:]
		}
	}
	b.deadline.wrote(len(*b.buf))
	return err
}

// Close writes the rest of the body.
func (b *body) Close() error {
	if !b.started {
		b.started = true
		b.w.Header().Set("Content-Length", strconv.Itoa(len(*b.buf)))
		b.w.WriteHeader(http.StatusOK)
		return b.bounded(b.send)
	}
	err := b.flush()
	if err == nil && b.gzip != nil {
		err = b.bounded(b.gzip.Close) // it writes what the compressor still holds
	}
	return err
}

// end releases the buffer and the deadline, also after an error.
func (b *body) end() {
	if b.gzip != nil {
		b.gzip.release()
	}
	*b.buf = (*b.buf)[:0]
	buffers.Put(b.buf)
	b.buf = nil
	b.deadline.close()
	b.charge.Release()
}

// gzipBytes is the measured size of a gzip.Writer.
const gzipBytes = 800 << 10

// gzipWriter is a pooled gzip.Writer at the fastest level, because most clients are near.
type gzipWriter struct{ *gzip.Writer }

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic("watchcache: gzip.BestSpeed is no level: " + err.Error())
	}
	return w
}}

// newGzipWriter begins a gzip member. The caller must call release.
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
