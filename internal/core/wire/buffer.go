package wire

import (
	"io"
	"sync"
)

const (
	// readBuffer is the size of a read buffer, in bytes. bulkBuffer is the size for a body that
	// arrives faster than the caller reads it. A larger buffer needs fewer reads. An HTTP/2 client
	// sends a window update after each read, and the update costs client and server more CPU time than
	// the bytes that were read.
	readBuffer = 16 << 10
	bulkBuffer = 64 << 10
	// shrinkAfter is a number of consecutive reads that need only a small part of a grown buffer.
	// After them, a small buffer replaces the grown one.
	shrinkAfter = 64
	// emptyReads is the maximum number of consecutive calls of Read that return no bytes and no error.
	emptyReads = 100
)

// waiter is a reader that can wait until bytes have arrived, so that the caller needs no buffer
// while it waits.
type waiter interface {
	// Ready reports whether a Read would return without waiting.
	Ready() bool
	// Wait blocks until a Read would return without waiting.
	Wait()
}

// The three pools below are for buffers of size readBuffer, of size bulkBuffer, and of larger
// sizes. A watch that waits for its next event puts its buffer into one of the pools, so that other
// watches can use it. The garbage collector frees unused buffers.
var (
	readBuffers  = sync.Pool{New: func() any { return new([readBuffer]byte) }}
	bulkBuffers  = sync.Pool{New: func() any { return new([bulkBuffer]byte) }}
	grownBuffers sync.Pool // of *[]byte
)

// buffer is the read buffer of a body. It starts with readBuffer bytes for a WATCH, and with
// bulkBuffer bytes for a LIST. If a read fills all the free space of a smaller buffer, the buffer
// grows to bulkBuffer. Then it doubles as often as one object needs more space. The callers bound
// the growth: they stop reading when an object exceeds the maximum size of an object.
type buffer struct {
	r          io.Reader
	buf        []byte
	start, end int   // the window: the bytes that were read but not consumed
	off        int64 // offset of the window's first byte in the body
	idle       int   // consecutive reads that did not need the grown buffer
	filled     bool  // the last read filled all the free space; initially true for a LIST
	err        error // the error that r returned; final
}

func (b *buffer) window() []byte { return b.buf[b.start:b.end] }

func (b *buffer) len() int { return b.end - b.start }

func (b *buffer) consume(n int) {
	b.start += n
	b.off += int64(n)
}

// need blocks until the window contains n bytes. It returns io.ErrUnexpectedEOF if the body ends
// first.
func (b *buffer) need(n int) error {
	for b.end-b.start < n {
		if err := b.more(); err != nil {
			if err == io.EOF {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// more reads at least one byte into the window. Slices of the window become invalid.
func (b *buffer) more() error {
	if b.err != nil {
		return b.err
	}
	b.wait()
	b.makeRoom()
	for range emptyReads {
		room := b.buf[b.end:min(len(b.buf), b.end+bulkBuffer)]
		n, err := b.r.Read(room)
		if n < 0 || n > len(room) {
			b.err = io.ErrNoProgress
			return b.err
		}
		b.end += n
		b.err = err
		b.filled = n == len(room)
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	b.err = io.ErrNoProgress
	return b.err
}

// wait blocks until there are bytes to read, if the reader is a waiter and the window is empty.
// While it blocks, the buffer is in its pool.
func (b *buffer) wait() {
	if b.start < b.end {
		return
	}
	w, ok := b.r.(waiter)
	if !ok || w.Ready() {
		return
	}
	buf := b.buf
	b.buf, b.start, b.end = nil, 0, 0
	switch len(buf) {
	case 0:
		w.Wait()
	case readBuffer:
		readBuffers.Put((*[readBuffer]byte)(buf))
		w.Wait()
		b.buf = readBuffers.Get().(*[readBuffer]byte)[:]
	case bulkBuffer:
		bulkBuffers.Put((*[bulkBuffer]byte)(buf))
		w.Wait()
		b.buf = bulkBuffers.Get().(*[bulkBuffer]byte)[:]
	default:
		b.waitGrown(w, buf)
	}
}

// waitGrown does what wait does, for a buffer that grew for one object. The next object may be as
// large, so if the pool has a grown buffer after the wait, waitGrown uses that buffer. Otherwise
// the next read starts with a small buffer.
func (b *buffer) waitGrown(w waiter, buf []byte) {
	grownBuffers.Put(&buf)
	w.Wait()
	if back, ok := grownBuffers.Get().(*[]byte); ok {
		b.buf = *back
	}
}

func (b *buffer) makeRoom() {
	held := b.end - b.start
	if len(b.buf) > readBuffer {
		b.idle++
		if held > len(b.buf)/8 || held > readBuffer/2 || b.filled && len(b.buf) <= bulkBuffer {
			b.idle = 0
		}
		if b.idle > shrinkAfter {
			b.idle = 0
			b.moveTo(make([]byte, readBuffer))
			return
		}
	}
	switch {
	case b.buf == nil && b.filled:
		b.buf = make([]byte, bulkBuffer)
	case b.buf == nil:
		b.buf = make([]byte, readBuffer)
	case held == len(b.buf), b.filled && len(b.buf) < bulkBuffer:
		b.moveTo(make([]byte, max(bulkBuffer, 2*len(b.buf))))
	case b.start > 0 && (held == 0 || len(b.buf)-b.end < min(len(b.buf), bulkBuffer)/2):
		b.moveTo(b.buf)
	}
}

func (b *buffer) moveTo(buf []byte) {
	n := copy(buf, b.buf[b.start:b.end])
	b.buf, b.start, b.end = buf, 0, n
}

// fail returns a *SyntaxError for the byte at index i of the window.
func (b *buffer) fail(i int, what string, err error) error {
	return &SyntaxError{Offset: b.off + int64(i), What: what, Err: err}
}
