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
// reads nothing does not block the write forever. Package watchcache does the same for its own
// responses.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	budget  *waitBudget     // bounds the wait for the client; nil: only conn.WriteStall does
	answer  *responseWriter // the responseWriter of the request; nil in tests
	writing *atomic.Int64   // counts the writes in progress; nil: they are not counted
	// request is a context that ends with the request. When it ends, the writer closes an upgraded
	// connection, because the client may read nothing. nil: the writer does not close the connection.
	request context.Context

	pending atomic.Bool // timer is set, and will flush the response

	mu       sync.Mutex // held during a write or a flush
	deadline time.Time  // the current write deadline; zero: none
	// Only the goroutine of the handler uses timer, so mu does not guard it.
	timer *time.Timer
	// buffer starts to buffer the writes of the connection, until release is called. nil: buffering is
	// not wanted, or has started already.
	buffer  func() (release func())
	release func() // ends the buffering; nil: no writes are buffered
	ended   bool   // the wrapped writer must not be used any more
}

const (
	// flushDelay is how long a written part of a response may wait to be flushed. It applies if the
	// client must read at a minimum pace (see waitBudget), for example if the request has a seat,
	// which is a place among the requests in progress. To flush after every 32 KiB, and to set and
	// clear a deadline each time, would cost half as much as forwarding the bytes.
	flushDelay = 20 * time.Millisecond
	// deadlineSlack is how much later than intended a deadline may be, so that it need not be set for
	// each write. Setting one requires a round trip to the goroutine of an HTTP/2 connection.
	deadlineSlack = time.Second
	// bufferAbove is the minimum size of a write that starts the buffering of the connection's writes,
	// see writeBuffer. Such a write belongs to a large response.
	bufferAbove = 8 << 10
)

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

// newPacedWriter returns a deadlineWriter for the response to a request that has a seat, which is a
// place among the requests in progress. The client must read at a minimum pace, see waitBudget.
func newPacedWriter(w http.ResponseWriter) *deadlineWriter {
	dw := newDeadlineWriter(w)
	dw.budget = &waitBudget{grace: seatGrace}
	return dw
}

// WriteHeader makes the client read at a minimum pace from now on in two cases, see waitBudget. If
// the request has released its seat (its place among the requests in progress), the client's grace
// is conn.UnreadTime. If a long-running request gets a redirect or an error, the grace is
// seatGrace, as for a request with a seat.
func (dw *deadlineWriter) WriteHeader(code int) {
	dw.mu.Lock()
	if dw.answer != nil && dw.answer.left {
		dw.budget = &waitBudget{grace: conn.UnreadTime}
	} else if dw.budget == nil && code >= http.StatusMultipleChoices {
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

// begin prepares a write or flush: it sets the deadline if necessary, and returns the time. If the
// client is too slow, begin sets a deadline that has passed, so that the write breaks the
// connection or stream. If begin returned an error instead, a handler might end the response as if
// it were complete. The caller holds the lock.
func (dw *deadlineWriter) begin() time.Time {
	now, limit := time.Now(), conn.WriteStall
	if dw.budget != nil {
		limit = min(limit, dw.budget.left())
	}
	// Keep the current deadline if the client still has at least half of the limit, and not much more
	// than the limit.
	if left := dw.deadline.Sub(now); limit <= 0 || dw.deadline.IsZero() || left > limit+deadlineSlack || left < limit/2 {
		dw.setDeadline(now.Add(limit))
	}
	if dw.writing != nil {
		dw.writing.Add(1)
	}
	return now
}

// setDeadline sets the write deadline; zero clears it. The caller holds the lock.
func (dw *deadlineWriter) setDeadline(at time.Time) {
	dw.deadline = at
	_ = dw.control.SetWriteDeadline(at) // the writers of tests do not support it
}

// done must be called after the write or flush that begin prepared. It records that the client has
// read n bytes since the time that begin returned (begun). The caller holds the lock.
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

// FlushError flushes the response and clears the deadline. ReverseProxy calls it after each write.
// If the client must read at a minimum pace (dw.budget is set), FlushError only starts a timer,
// which flushes the response after flushDelay.
func (dw *deadlineWriter) FlushError() error {
	dw.mu.Lock()
	if dw.budget == nil {
		defer dw.mu.Unlock()
		return dw.flush()
	}
	dw.mu.Unlock()
	// Do not lock mu here: a concurrent flushLater that finds mu locked does not flush.
	if dw.pending.CompareAndSwap(false, true) {
		if dw.timer == nil {
			dw.timer = time.AfterFunc(flushDelay, dw.flushLater)
		} else {
			dw.timer.Reset(flushDelay)
		}
	}
	return nil
}

// flush flushes the response, and clears the deadline because the proxy does not wait for the
// client until the next write. The caller holds the lock.
func (dw *deadlineWriter) flush() error {
	begun := dw.begin()
	err := dw.control.Flush()
	dw.done(0, begun)
	dw.setDeadline(time.Time{})
	return err
}

// flushLater flushes the response when the timer fires. During a write it does nothing: FlushError
// is called again after the write.
func (dw *deadlineWriter) flushLater() {
	dw.pending.Store(false)
	if !dw.mu.TryLock() {
		return
	}
	defer dw.mu.Unlock()
	if !dw.ended {
		_ = dw.flush() // the next write returns the same error
	}
}

// end stops all use of the wrapped writer. It must be called before the handler returns.
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
