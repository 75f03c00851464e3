package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeBuffer is a connection's writes while an answer is being made. HTTP/2 writes every frame on
// its own, and for an answer of 100 KB the system calls and the client's being woken by each cost
// more than everything else. So what is written meanwhile goes out in larger pieces: with the frame
// that comes behind the answer, when there are writeBufferBytes, or after writeBufferDelay. Safe
// for concurrent use.
type writeBuffer struct {
	conn net.Conn

	// answers is how many are being made. It has no lock: nobody who begins or ends one waits for a
	// write that takes long.
	answers atomic.Int32

	mu           sync.Mutex
	buf          *[]byte     // nil: nothing waits
	timer        *time.Timer // writes what waits when it ends; it is not stopped before, since to start it for each answer would cost more
	timerRunning bool        // the timer
	err          error       // of the timer's write
}

const (
	writeBufferBytes = 64 << 10
	writeBufferDelay = 5 * time.Millisecond
)

// writeBuffers holds buffers of writeBufferBytes. A connection has one while something waits to be
// written.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBufferBytes); return &b }}

// Write is net.Conn's, but may write later. An error of that is the next write's.
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

// append puts bytes into the buffer, in which there is room.
func (wb *writeBuffer) append(p []byte) {
	if wb.buf == nil {
		wb.buf = writeBuffers.Get().(*[]byte)
		wb.startTimer()
	}
	*wb.buf = append(*wb.buf, p...)
}

// startTimer starts the timer, if it does not run.
func (wb *writeBuffer) startTimer() {
	switch {
	case wb.timer == nil:
		wb.timer = time.AfterFunc(writeBufferDelay, wb.flushLater)
	case !wb.timerRunning:
		wb.timer.Reset(writeBufferDelay)
	}
	wb.timerRunning = true
}

// flush writes what waits.
func (wb *writeBuffer) flush() error {
	buf := wb.buf
	wb.buf = nil
	_, wb.err = wb.conn.Write(*buf)
	*buf = (*buf)[:0]
	writeBuffers.Put(buf)
	return wb.err
}

// flushLater writes what waits, be it for so long or less.
func (wb *writeBuffer) flushLater() {
	wb.mu.Lock()
	defer wb.mu.Unlock()
	wb.timerRunning = false
	if wb.buf != nil {
		_ = wb.flush() // kept for the next write
	}
}

// writeBufferKey is where a request's context has its connection's gathering.
type writeBufferKey struct{}

// bufferWrites gathers the writes of a request's connection until it is released.
func bufferWrites(r *http.Request) (release func()) {
	wb, ok := r.Context().Value(writeBufferKey{}).(*writeBuffer)
	if !ok || r.ProtoMajor != 2 {
		return func() {}
	}
	wb.answers.Add(1)
	return func() { wb.answers.Add(-1) }
}

func (wb *writeBuffer) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, writeBufferKey{}, wb)
}
