package watchcache

import (
	"bufio"
	"io"
	"net/http"
	"sync"
)

// streamBuffer is how many bytes of events are collected before they are written, when there are more to come.
const streamBuffer = 32 << 10

// smallWrite bounds the writes of a small stream, because net/http keeps a buffer of the largest write of an HTTP/2 connection as long
// as that lasts. One event of a pod fits in.
const smallWrite = 8 << 10

var streamBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, streamBuffer) }}

// stream writes the body of a WATCH. Between two flushes it holds one buffer, and after a flush none.
type stream struct {
	w    http.ResponseWriter
	pace *pace
	most int  // bytes of a single write
	gzip bool // one member a flush
	zip  *gzipWriter
	buf  *bufio.Writer
	err  error // of the connection; final
}

// newStream sets the headers; the first flush sends them. small: there are many of these and each sends little.
func (c *Cache) newStream(w http.ResponseWriter, contentType string, zip, small bool) *stream {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	if zip {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, pace: c.watching.start(w), most: streamBuffer, gzip: zip}
	if small {
		s.most = smallWrite
	}
	return s
}

// Write passes bytes on to the client; the buffer calls it.
func (s *stream) Write(p []byte) (n int, err error) {
	s.pace.begin()
	to := io.Writer(s.w)
	if s.gzip {
		if s.zip == nil {
			s.zip = newGzipWriter(s.w)
		}
		to = s.zip
	}
	for len(p) > 0 && err == nil {
		m := 0
		m, err = to.Write(p[:min(len(p), s.most)])
		n, p = n+m, p[m:]
	}
	return n, err
}

// write adds one event. It keeps nothing of it. Errors stay in err.
func (s *stream) write(event []byte) {
	if s.err != nil {
		return
	}
	if s.buf == nil {
		s.buf = streamBuffers.Get().(*bufio.Writer)
		s.buf.Reset(s)
	}
	_, s.err = s.buf.Write(event)
}

// flush sends everything to the client, at first the headers too, and lets go of the buffers.
func (s *stream) flush() error {
	if s.buf != nil && s.err == nil {
		s.err = s.buf.Flush()
	}
	if s.zip != nil && s.err == nil {
		// The end of a member alone is not enough: a reader such as that of the standard library, behind every Go client, keeps the last
		// bytes of a member until it has seen the beginning of the next.
		if s.err = s.zip.Flush(); s.err == nil {
			s.err = s.zip.Close()
		}
	}
	s.freeBuffers()
	if s.err == nil {
		s.pace.begin()
		s.err = s.pace.control.Flush()
		s.pace.rest()
	}
	return s.err
}

// end lets go of everything.
func (s *stream) end() {
	s.freeBuffers()
	s.pace.end()
}

func (s *stream) freeBuffers() {
	if s.buf != nil {
		s.buf.Reset(io.Discard)
		streamBuffers.Put(s.buf)
		s.buf = nil
	}
	if s.zip != nil {
		s.zip.release()
		s.zip = nil
	}
}
