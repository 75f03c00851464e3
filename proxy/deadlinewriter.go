package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// writeStall is how long a write to a client may block before its connection or stream is closed.
const writeStall = 5 * time.Minute

// deadlineWriter sets a deadline for each write of a forwarded response, so that a client that
// takes nothing does not hold it for ever. Package watchcache does so for its own responses.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	budget  *waitBudget     // nil: the client need not keep to one
	answer  *responseWriter // of the request; nil in tests
	writing *atomic.Int64   // counts the writes under way; nil: nobody does
	// request ends with the request. An upgraded connection is closed then, whose client may take
	// nothing. nil: there is none.
	request context.Context
}

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
// that has a seat, and the client of any request that has left its seat to unreadTime.
func (dw *deadlineWriter) WriteHeader(code int) {
	switch {
	case dw.answer != nil && dw.answer.left:
		dw.budget = &waitBudget{grace: unreadTime}
	case dw.budget == nil && code >= http.StatusMultipleChoices:
		dw.budget = &waitBudget{grace: seatGrace}
	}
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
// let a handler end an answer as if it were whole.
func (dw *deadlineWriter) begin() time.Time {
	now, limit := time.Now(), writeStall
	if dw.budget != nil {
		limit = min(limit, dw.budget.left())
	}
	_ = dw.control.SetWriteDeadline(now.Add(limit)) // unsupported by the writers of tests
	if dw.writing != nil {
		dw.writing.Add(1)
	}
	return now
}

// done notes that a write or flush has ended, and how many bytes the client has taken.
func (dw *deadlineWriter) done(n int, begun time.Time) {
	if dw.budget != nil {
		dw.budget.moved(n, begun)
	}
	if dw.writing != nil {
		dw.writing.Add(-1)
	}
}

func (dw *deadlineWriter) Write(b []byte) (int, error) {
	begun := dw.begin()
	n, err := dw.ResponseWriter.Write(b)
	dw.done(n, begun)
	return n, err
}

// FlushError flushes, and clears the deadline: ReverseProxy calls it after each write.
func (dw *deadlineWriter) FlushError() error {
	begun := dw.begin()
	err := dw.control.Flush()
	dw.done(0, begun)
	_ = dw.control.SetWriteDeadline(time.Time{})
	return err
}
