package watchcache

import (
	"bufio"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// streamBuffer is how many bytes of events a stream buffers before it writes them.
const streamBuffer = 32 << 10

// zipBytes is the memory of the buffers of a compressed stream.
const zipBytes = gzipBytes + streamBuffer

// maxSmallWrite bounds the writes of a small stream, because net/http retains a buffer as large as
// the largest write while an HTTP/2 connection exists.
const maxSmallWrite = 4 << 10

var streamBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, streamBuffer) }}

// stream writes the body of a WATCH. It has a buffer only from the first event after a flush to the
// next flush.
type stream struct {
	sender
	zip bool // write one gzip member per flush
	// charge pays for the buffers of a compressed stream. nil: these buffers are not charged.
	charge *budget.Charge
	buf    *bufio.Writer
	err    error // of the connection; final
}

// newStream sets the response headers; the first flush sends them. It compresses the stream if zip
// is true and p can afford the buffers. small limits the size of writes. Use small if there are
// many such streams and each sends little.
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

// write appends one event to the buffer and does not retain event. An error stays in s.err.
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

// flush sends the headers and all buffered bytes to the client, and releases the buffers.
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

// finish sends the buffered bytes of a stream that ends, so that the stream does not end inside an
// event or a gzip member. grace is the time that the client has to read these bytes. If finish
// fails, the connection fails too, so the client notices the missing bytes.
func (s *stream) finish(grace time.Duration) {
	if s.err == nil && (s.buf != nil || s.gzip != nil) {
		s.deadline.setDeadline(time.Now().Add(grace))
		_ = s.flush()
	}
}

// endMember flushes and then ends the gzip member. Without the flush, readers such as the standard
// library's would retain the last bytes of the member until the next member starts.
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
