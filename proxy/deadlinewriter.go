package proxy

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// writeStall is how long a write to a client may block before its connection or stream is
	// closed.
	writeStall = 5 * time.Minute
	// A forwarded answer keeps a seat until the client has it. So the client is, at any time, no
	// more than answerGrace behind one that takes answerPace bytes a second. Package watchcache
	// counts bytes before compression and has a pace of eight times as many; a forwarded answer may
	// come compressed.
	answerGrace = time.Minute
	answerPace  = 32 << 10
)

// deadlineWriter sets a deadline for each write of a forwarded response, so that a client that
// takes nothing does not hold it for ever. Package watchcache does so for its own responses.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	paced   bool  // the client must keep to answerPace
	taken   int64 // bytes
	// waited is the time for the client to take them. That in which the upstream sends nothing does
	// not count.
	waited  time.Duration
	writing *atomic.Int64 // counts the writes under way; nil: nobody does
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

// newPacedWriter returns a deadlineWriter for the answer to a request that has a seat.
func newPacedWriter(w http.ResponseWriter) *deadlineWriter {
	dw := newDeadlineWriter(w)
	dw.paced = true
	return dw
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (dw *deadlineWriter) Unwrap() http.ResponseWriter { return dw.ResponseWriter }

// begin sets the deadline of a write or flush, and returns the time. For a client that is too slow
// the deadline has passed, so that the write breaks the connection or stream: an error alone would
// let a handler end an answer as if it were whole.
func (dw *deadlineWriter) begin() time.Time {
	now, limit := time.Now(), writeStall
	if dw.paced {
		due := answerGrace + time.Duration(float64(dw.taken)/answerPace*float64(time.Second))
		limit = min(limit, due-dw.waited)
	}
	_ = dw.control.SetWriteDeadline(now.Add(limit)) // unsupported by the writers of tests
	if dw.writing != nil {
		dw.writing.Add(1)
	}
	return now
}

// done notes that a write or flush has ended.
func (dw *deadlineWriter) done(begun time.Time) {
	dw.waited += time.Since(begun)
	if dw.writing != nil {
		dw.writing.Add(-1)
	}
}

func (dw *deadlineWriter) Write(b []byte) (int, error) {
	begun := dw.begin()
	n, err := dw.ResponseWriter.Write(b)
	dw.done(begun)
	dw.taken += int64(n)
	return n, err
}

// FlushError flushes, and clears the deadline: ReverseProxy calls it after each write.
func (dw *deadlineWriter) FlushError() error {
	begun := dw.begin()
	err := dw.control.Flush()
	dw.done(begun)
	_ = dw.control.SetWriteDeadline(time.Time{})
	return err
}
