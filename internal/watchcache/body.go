package watchcache

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/weirproject/weir/internal/store"
)

// gzipAbove is the size of a LIST body above which it is gzipped for a client that takes that, in bytes.
const gzipAbove = 128 << 10

// http2Write is how much is written at once by HTTP/2: with the frame's header it fills one TLS record. A frame of 16 KiB needs a second
// record for its last bytes, and one more system call.
const http2Write = 16<<10 - 9

// buffers holds buffers of gzipAbove bytes between bodies.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, gzipAbove); return &b }}

// body writes the body of a LIST. What is no larger than its buffer goes out as it is, with its length; of anything larger the
// buffer is all that is ever held.
type body struct {
	w      http.ResponseWriter
	ctx    context.Context // of the request
	pace   *pace
	gzip   bool // the client takes it
	most   int  // bytes of a single write
	buf    *[]byte
	begun  bool
	zip    *gzipWriter // nil: not compressed
	broken bool        // the client has gone
}

func (c *Cache) newBody(w http.ResponseWriter, r *http.Request) *body {
	b := &body{w: w, ctx: r.Context(), pace: c.paces.start(w), gzip: acceptsGzip(r.Header), most: gzipAbove, buf: buffers.Get().(*[]byte)}
	if r.ProtoMajor == 2 && !c.gathers {
		b.most = http2Write
	}
	return b
}

// Write takes the next bytes of the body.
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

// unpack puts an object's bytes into the buffer, without a detour. It reports false, and puts nothing there, if there is no room.
func (b *body) unpack(o *store.Object) (done bool, err error) {
	if o.Size() > cap(*b.buf)-len(*b.buf) {
		return false, nil
	}
	*b.buf, err = o.AppendRaw(*b.buf)
	return true, err
}

// flush writes what the buffer holds. The first time it settles that the body is a large one. For a caller who has gone it writes nothing: not
// every way to one tells so.
func (b *body) flush() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if !b.begun {
		b.begun = true
		b.w.Header().Add("Vary", "Accept-Encoding")
		if b.gzip {
			b.w.Header().Set("Content-Encoding", "gzip")
			b.zip = newGzipWriter(b.w)
		}
		b.w.WriteHeader(http.StatusOK)
	}
	err := b.send()
	b.pace.rest()
	*b.buf = (*b.buf)[:0]
	return err
}

// send writes what the buffer holds to the client.
func (b *body) send() (err error) {
	b.pace.begin()
	if b.zip != nil {
		_, err = b.zip.Write(*b.buf)
	} else {
		for p := *b.buf; len(p) > 0 && err == nil; {
			n := min(len(p), b.most)
			_, err = b.w.Write(p[:n])
			p = p[n:]
		}
	}
	b.broken = err != nil
	return err
}

// Close writes the rest. The body must have been written in full.
func (b *body) Close() error {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Length", strconv.Itoa(len(*b.buf)))
		b.w.WriteHeader(http.StatusOK)
		return b.send()
	}
	err := b.flush()
	if err == nil && b.zip != nil {
		err = b.zip.Close()
		b.broken = err != nil
	}
	return err
}

// end lets go of everything, in any case.
func (b *body) end() {
	if b.zip != nil {
		b.zip.release()
	}
	*b.buf = (*b.buf)[:0]
	buffers.Put(b.buf)
	b.buf = nil
	b.pace.end()
}
