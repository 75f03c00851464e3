package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/proxy/internal/conn"
)

// deadlineWriter sets a deadline for each write of a forwarded response, so that a client that
// reads nothing does not block it forever. Package watchcache does so for its own responses.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	budget  *waitBudget     // nil: the client need not keep to one
	answer  *responseWriter // of the request; nil in tests
	writing *atomic.Int64   // counts the writes in progress; nil: they are not counted
	// request is done when the request ends. Then an upgraded connection is closed, whose client
	// may read nothing. nil: it is not closed.
	request context.Context

	pending atomic.Bool // a flush is to come

	mu       sync.Mutex // is held by a write or a flush
	deadline time.Time  // that is set; zero: none
	// timer is used by the goroutine of the handler, without the lock.
	timer *time.Timer
	// buffer has the writes of the connection buffered until release is called; nil: they are not, or
	// are already.
	buffer  func() (release func())
	release func() // ends that; nil: nothing is buffered
	ended   bool   // the writer below must not be used any more
}

const (
	// flushDelay is how long a response to a request with a seat may wait to be flushed. To flush each
	// 32 KiB, and to set and clear a deadline for that, cost half as much as to forward them.
	flushDelay = 20 * time.Millisecond
	// deadlineSlack is how much later than it should a deadline may be. To set one takes a round to
	// the goroutine of an HTTP/2 connection.
	deadlineSlack = time.Second
	// bufferAbove is the size of a write from which on the writes of its connection are buffered, see
	// writeBuffer: the response is a large one.
	bufferAbove = 8 << 10
)

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

// newPacedWriter returns a deadlineWriter for the answer to a request that has a seat.
func newPacedWriter(w http.ResponseWriter) *deadlineWriter {
	dw := newDeadlineWriter(w)
	dw.budget = &waitBudget{grace: seatGrace}
	return dw
}

// WriteHeader has the client of a long-running request that gets an error keep to the pace of one
// that has a seat, and the client of any request that has left its seat to conn.UnreadTime.
func (dw *deadlineWriter) WriteHeader(code int) {
	dw.mu.Lock()
	switch {
	case dw.answer != nil && dw.answer.left:
		dw.budget = &waitBudget{grace: conn.UnreadTime}
	case dw.budget == nil && code >= http.StatusMultipleChoices:
		dw.budget = &waitBudget{grace: seatGrace}
	}
	dw.mu.Unlock()
	dw.ResponseWriter.WriteHeader(code)
}

// Hijack takes over the connection, for an upgrade.
func (dw *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := dw.control.Hijack()
	if err == nil && dw.request != nil {
		context.AfterFunc(dw.request, func() { conn.Close() })
	}
	return conn, rw, err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (dw *deadlineWriter) Unwrap() http.ResponseWriter { return dw.ResponseWriter }

// begin sets the deadline of a write or flush, and returns the time. For a client that is too slow
// the deadline has passed, so that the write breaks the connection or stream: an error alone would
// let a handler end an answer as if it were whole. The caller holds the lock.
func (dw *deadlineWriter) begin() time.Time {
	now, limit := time.Now(), conn.WriteStall
	if dw.budget != nil {
		limit = min(limit, dw.budget.left())
	}
	// One that was set leaves the client half of the time at the least, and no more than all of it.
	if left := dw.deadline.Sub(now); limit <= 0 || dw.deadline.IsZero() || left > limit+deadlineSlack || left < limit/2 {
		dw.setDeadline(now.Add(limit))
	}
	if dw.writing != nil {
		dw.writing.Add(1)
	}
	return now
}

// setDeadline sets the deadline, or none. The caller holds the lock.
func (dw *deadlineWriter) setDeadline(at time.Time) {
	dw.deadline = at
	_ = dw.control.SetWriteDeadline(at) // unsupported by the writers of tests
}

// done notes that a write or flush has ended, and how many bytes the client has taken. The caller
// holds the lock.
func (dw *deadlineWriter) done(n int, begun time.Time) {
	if dw.budget != nil {
		dw.budget.moved(n, begun)
	}
	if dw.writing != nil {
		dw.writing.Add(-1)
	}
}

func (dw *deadlineWriter) Write(b []byte) (int, error) {
	dw.mu.Lock()
	defer dw.mu.Unlock()
	if dw.buffer != nil && dw.budget != nil && len(b) >= bufferAbove {
		dw.release, dw.buffer = dw.buffer(), nil
	}
	begun := dw.begin()
	n, err := dw.ResponseWriter.Write(b)
	dw.done(n, begun)
	return n, err
}

// FlushError flushes, and clears the deadline: ReverseProxy calls it after each write. The response
// to a request with a seat is flushed a moment later, with what is written until then.
func (dw *deadlineWriter) FlushError() error {
	if flushed, err := dw.flushNow(); flushed {
		return err
	}
	// Without the lock: if a flush is to come still, flushLater does not find it locked by this.
	if dw.pending.CompareAndSwap(false, true) {
		if dw.timer == nil {
			dw.timer = time.AfterFunc(flushDelay, dw.flushLater)
		} else {
			dw.timer.Reset(flushDelay)
		}
	}
	return nil
}

// flushNow flushes the response to a request without a seat, and reports whether it did.
func (dw *deadlineWriter) flushNow() (bool, error) {
	dw.mu.Lock()
	defer dw.mu.Unlock()
	if dw.budget != nil {
		return false, nil
	}
	return true, dw.flush()
}

// flush flushes, and clears the deadline: until the next write the client is not waited for. The
// caller holds the lock.
func (dw *deadlineWriter) flush() error {
	begun := dw.begin()
	err := dw.control.Flush()
	dw.done(0, begun)
	dw.setDeadline(time.Time{})
	return err
}

// flushLater flushes when the timer fires. During a write it does nothing: after that FlushError is
// called again.
func (dw *deadlineWriter) flushLater() {
	dw.pending.Store(false)
	if !dw.mu.TryLock() {
		return
	}
	defer dw.mu.Unlock()
	if !dw.ended {
		_ = dw.flush() // the next write returns the error
	}
}

// end ends the use of the writer below, before its handler returns.
func (dw *deadlineWriter) end() {
	dw.mu.Lock()
	defer dw.mu.Unlock()
	dw.ended = true
	if dw.timer != nil {
		dw.timer.Stop()
	}
	if dw.release != nil {
		dw.release()
	}
}
