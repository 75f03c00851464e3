package proxy

import (
	"net/http"
	"time"
)

// writeStall is how long a write to a client may block before its connection, or stream, is closed.
const writeStall = 5 * time.Minute

// pacedWriter gives each write of an answer that is passed on its time, so that a client that takes nothing does not hold it for ever. What
// is answered from here is paced by package watchcache.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w, http.NewResponseController(w)}
}

// Unwrap is for http.ResponseController.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pacedWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeStall)) // a writer that knows none is a test's
	return p.ResponseWriter.Write(b)
}

// FlushError comes after each write: between two, there is no hurry.
func (p *pacedWriter) FlushError() error {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeStall))
	err := p.control.Flush()
	_ = p.control.SetWriteDeadline(time.Time{})
	return err
}
