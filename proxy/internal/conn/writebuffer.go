package conn

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeBuffer buffers a connection's writes while responses are being made. HTTP/2 writes each
// frame on its own, and for a response of 100 KB the system calls and the client's wake-ups cost
// more than everything else. Buffered bytes are written with the frame after the response, when
// there are writeBufferBytes, or after writeBufferDelay. It is safe for concurrent use.
type writeBuffer struct {
	conn net.Conn

	// answers counts the responses being made. It needs no lock, so beginning and ending one never
	// waits for a slow write.
	answers atomic.Int32

	mu  sync.Mutex
	buf *[]byte // nil: nothing is buffered
	// timer flushes the buffer. It is not stopped early, since to start it for each response would
	// cost more.
	timer        *time.Timer
	timerRunning bool  // the timer runs
	err          error // of the timer's flush
}

const (
	writeBufferBytes = 64 << 10
	writeBufferDelay = 5 * time.Millisecond
)

// writeBuffers pools buffers of writeBufferBytes. A connection has one only while bytes are
// buffered.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBufferBytes); return &b }}

// Write writes or buffers p. It returns the error of an earlier flush by the timer.
func (wb *writeBuffer) Write(p []byte) (int, error) {
	wb.mu.Lock()
	defer wb.mu.Unlock()
	if wb.err != nil {
		return 0, wb.err
	}
	if wb.buf == nil && wb.answers.Load() == 0 {
		return wb.conn.Write(p)
	}
	if wb.buf != nil && len(*wb.buf)+len(p) > writeBufferBytes {
		if err := wb.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > writeBufferBytes {
		return wb.conn.Write(p)
	}
	wb.append(p)
	if wb.answers.Load() == 0 {
		if err := wb.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// append appends bytes to the buffer, which must have room.
func (wb *writeBuffer) append(p []byte) {
	if wb.buf == nil {
		wb.buf = writeBuffers.Get().(*[]byte)
		wb.startTimer()
	}
	*wb.buf = append(*wb.buf, p...)
}

// startTimer starts the timer, unless it runs.
func (wb *writeBuffer) startTimer() {
	switch {
	case wb.timer == nil:
		wb.timer = time.AfterFunc(writeBufferDelay, wb.flushLater)
	case !wb.timerRunning:
		wb.timer.Reset(writeBufferDelay)
	}
	wb.timerRunning = true
}

// flush writes the buffer.
func (wb *writeBuffer) flush() error {
	buf := wb.buf
	wb.buf = nil
	_, wb.err = wb.conn.Write(*buf)
	*buf = (*buf)[:0]
	writeBuffers.Put(buf)
	return wb.err
}

// flushLater flushes the buffer when the timer fires, however old the buffer is.
func (wb *writeBuffer) flushLater() {
	wb.mu.Lock()
	defer wb.mu.Unlock()
	wb.timerRunning = false
	if wb.buf != nil {
		_ = wb.flush() // the next Write returns the error
	}
}

// BufferWrites buffers the writes of a request's connection until release is called.
func BufferWrites(r *http.Request) (release func()) {
	c := Of(r)
	if c == nil || r.ProtoMajor != 2 {
		return func() {}
	}
	c.buffer.answers.Add(1)
	return func() { c.buffer.answers.Add(-1) }
}
