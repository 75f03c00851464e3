package proxy

import (
	"net/http"
	"time"
)

// writeStall is how long a write to a client may block before its connection or stream is closed.
const writeStall = 5 * time.Minute

// deadlineWriter sets a deadline for each write of a forwarded response, so that a client that
// takes nothing does not hold it for ever. Package watchcache does so for its own responses.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{w, http.NewResponseController(w)}
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (dw *deadlineWriter) Unwrap() http.ResponseWriter { return dw.ResponseWriter }

func (dw *deadlineWriter) Write(b []byte) (int, error) {
	_ = dw.control.SetWriteDeadline(time.Now().Add(writeStall)) // unsupported by the writers of tests
	return dw.ResponseWriter.Write(b)
}

// FlushError flushes, and clears the deadline: ReverseProxy calls it after each write.
func (dw *deadlineWriter) FlushError() error {
	_ = dw.control.SetWriteDeadline(time.Now().Add(writeStall))
	err := dw.control.Flush()
	_ = dw.control.SetWriteDeadline(time.Time{})
	return err
}
