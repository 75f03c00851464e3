package proxy

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// bodyTimeout is how long a client may send nothing in the middle of a request's body.
	bodyTimeout = time.Minute
	// maxDiscarded bounds what is read of a body that nobody wants, so that the connection can be
	// used again.
	maxDiscarded = 64 << 10
)

// maxBuffered bounds the bodies that are held to be sent again. So many times Options.MaxMutating
// is what they take.
const maxBuffered = 64 << 10

// requestBody is that of a request on its way upstream. A transport may still read it when its
// request has been answered; then there is nothing that may be touched any more.
type requestBody struct {
	io.ReadCloser
	control      *http.ResponseController
	closeTimeout time.Duration // how long Close may take

	mu     sync.Mutex
	closed bool
}

// deadline sets when the next bytes must have come; zero: whenever. It returns false once the body
// is closed.
func (b *requestBody) deadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	_ = b.control.SetReadDeadline(at) // a server that knows none has its own ways
	return true
}

func (b *requestBody) Read(p []byte) (int, error) {
	if !b.deadline(time.Now().Add(bodyTimeout)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.deadline(time.Time{}) // or it would end what the connection is used for next
	}
	return n, err
}

// Close reads what is left, for HTTP/1, and that has its time too.
func (b *requestBody) Close() error {
	if !b.deadline(time.Now().Add(b.closeTimeout)) {
		return nil
	}
	err := b.ReadCloser.Close()
	b.deadline(time.Time{})
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return err
}

// bufferBody reads the body of a request, if it is small, so that a transport can send it again. It
// has to where the upstream closes the connection before it has looked at the request, as
// kube-apiserver does now and then to spread its clients.
func bufferBody(r *http.Request) error {
	if r.ContentLength <= 0 || r.ContentLength > maxBuffered {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := r.Body.Close(); err != nil {
		return err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	r.Body, err = r.GetBody()
	return err
}

// discardBody reads the body of a request that is answered from here, where none is expected: over
// HTTP/1 net/http reads it before the first byte of the answer, and would wait for ever for what
// never comes. If there is too much of it, the connection is not used again. If it does not come,
// the request is answered and discardBody returns false.
func (s *Server) discardBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Body == nil {
		return true
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.opts.timeouts.discard))
	switch _, err := io.CopyN(io.Discard, r.Body, maxDiscarded); err {
	case io.EOF:
		_ = control.SetReadDeadline(time.Time{})
		return true
	case nil: // the deadline stays: net/http reads on when the request has been answered
		w.Header().Set("Connection", "close")
		return true
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "the body did not come", http.StatusRequestTimeout)
	return false
}
