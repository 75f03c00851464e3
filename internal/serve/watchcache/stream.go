package watchcache

import (
	"bufio"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// streamBuffer is how many bytes of events are buffered while more are pending.
const streamBuffer = 32 << 10

// zipBytes is what the buffers of a compressed stream take.
const zipBytes = gzipBytes + streamBuffer

// maxSmallWrite bounds the writes of a small stream, because net/http keeps a buffer as large as
// the largest write for the life of an HTTP/2 connection.
const maxSmallWrite = 4 << 10

var streamBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, streamBuffer) }}

// stream writes the body of a WATCH. It has one buffer between two flushes, and none after a flush.
type stream struct {
	sender
	zip bool // one gzip member a flush
	// charge has the buffers of a compressed stream; those of others count as the watch. nil: they are
	// not counted.
	charge *budget.Charge
	buf    *bufio.Writer
	err    error // of the connection; final
}

// newStream sets the headers; the first flush sends them. It compresses if zip is true and the
// payer affords that. small is for one of many streams that send little.
func (c *Cache) newStream(w http.ResponseWriter, p *Payer, contentType string, zip, small bool) *stream {
	zip = zip && p.affords(zipBytes)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	if zip {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(http.StatusOK)
	s := &stream{sender: sender{w: w, deadline: c.watchWrites.start(w), maxWrite: streamBuffer}, zip: zip}
	if small {
		s.maxWrite = maxSmallWrite
	}
	if zip && p != nil {
		s.charge = p.Budget.NewCharge(p.Level, p.Share)
	}
	return s
}

// Write writes bytes to the client. The buffer calls it.
func (s *stream) Write(p []byte) (n int, err error) {
	if s.zip && s.gzip == nil {
		s.compress()
	}
	return s.sender.Write(p)
}

// write appends one event and does not retain it. An error stays in err.
func (s *stream) write(event []byte) {
	if s.err != nil {
		return
	}
	if s.buf == nil {
		s.buf = streamBuffers.Get().(*bufio.Writer)
		s.buf.Reset(s)
		if s.charge != nil {
			s.charge.Add(zipBytes)
		}
	}
	_, s.err = s.buf.Write(event)
}

// flush sends everything to the client, the headers first, and releases the buffers.
func (s *stream) flush() error {
	if s.buf != nil && s.err == nil {
		s.err = s.buf.Flush()
	}
	if s.gzip != nil && s.err == nil {
		s.err = s.deadline.during(s.endMember)
	}
	s.freeBuffers()
	if s.err == nil {
		s.err = s.deadline.during(s.deadline.control.Flush)
	}
	return s.err
}

// finish sends what is buffered of a stream that ends, within grace, so that it does not end within
// an event or a gzip member. Where that fails, so does the connection, and the client sees it.
func (s *stream) finish(grace time.Duration) {
	if s.err == nil && (s.buf != nil || s.gzip != nil) {
		s.deadline.setDeadline(time.Now().Add(grace))
		_ = s.flush()
	}
}

// endMember ends the gzip member. Its end is not enough: readers such as the standard library's
// keep the last bytes of a member until the next one begins.
func (s *stream) endMember() error {
	if err := s.gzip.Flush(); err != nil {
		return err
	}
	return s.gzip.Close()
}

// end releases the buffers and the deadline.
func (s *stream) end() {
	s.freeBuffers()
	s.deadline.close()
}

func (s *stream) freeBuffers() {
	if s.buf != nil {
		s.buf.Reset(io.Discard)
		streamBuffers.Put(s.buf)
		s.buf = nil
		s.charge.Release()
	}
	s.release()
}
