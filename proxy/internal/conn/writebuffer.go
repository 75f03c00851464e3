package conn

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeBuffer buffers a connection's writes while handlers write responses. HTTP/2 writes each
// frame separately. For a response of 100 KB these system calls and the wake-ups of the client cost
// more than everything else. The buffer is written to the connection in three cases: at the first
// write after all handlers have finished their responses, when the next bytes do not fit, and after
// writeBufferDelay. writeBuffer is safe for concurrent use.
type writeBuffer struct {
	conn net.Conn

	// answers is the number of responses that handlers are writing. It is atomic, so that the start
	// and end of a response never wait for a slow write.
	answers atomic.Int32

	mu  sync.Mutex
	buf *[]byte // nil: nothing is buffered
	// timer flushes the buffer. It is not stopped when the buffer is flushed earlier, because starting
	// it again for each response would cost more.
	timer        *time.Timer
	timerRunning bool  // the timer runs
	err          error // of the last flush
}

const (
	writeBufferBytes = 64 << 10
	writeBufferDelay = 5 * time.Millisecond
)

// writeBuffers is a pool of buffers of writeBufferBytes. A connection has a buffer only while bytes
// are buffered.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBufferBytes); return &b }}

// Write writes or buffers p. If an earlier flush has failed, Write returns that error.
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
	if wb.buf == nil {
		wb.buf = writeBuffers.Get().(*[]byte)
		wb.startTimer()
	}
	*wb.buf = append(*wb.buf, p...)
	if wb.answers.Load() == 0 {
		if err := wb.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// startTimer starts the timer, unless it is running.
func (wb *writeBuffer) startTimer() {
	if wb.timer == nil {
		wb.timer = time.AfterFunc(writeBufferDelay, wb.flushLater)
	} else if !wb.timerRunning {
		wb.timer.Reset(writeBufferDelay)
	}
	wb.timerRunning = true
}

// flush writes the buffer to the connection.
func (wb *writeBuffer) flush() error {
	buf := wb.buf
	wb.buf = nil
	_, wb.err = wb.conn.Write(*buf)
	*buf = (*buf)[:0]
	writeBuffers.Put(buf)
	return wb.err
}

// flushLater flushes the buffer when the timer fires. The timer may have been started for an
// earlier buffer.
func (wb *writeBuffer) flushLater() {
	wb.mu.Lock()
	defer wb.mu.Unlock()
	wb.timerRunning = false
	if wb.buf != nil {
		_ = wb.flush() // the next Write returns the error
	}
}

// BufferWrites buffers the writes to the connection of an HTTP/2 request until the caller calls
// release. For an HTTP/1 request it does nothing.
func BufferWrites(r *http.Request) (release func()) {
	c := Of(r)
	if c == nil || r.ProtoMajor != 2 {
		return func() {}
	}
	c.buffer.answers.Add(1)
	return func() { c.buffer.answers.Add(-1) }
}
