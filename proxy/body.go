package proxy

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// bodyStall is how long a client may send nothing in the middle of a request's body.
	bodyStall = time.Minute
	// maxDropped bounds what is read of a body that nobody wants, so that the connection can be used again.
	maxDropped = 64 << 10
)

// maxReplayed bounds the bodies that are held to be sent again. So many times Options.MaxMutating is what they take.
const maxReplayed = 64 << 10

// body is that of a request on its way upstream. A transport may still read it when its request has been answered; then there is nothing
// that may be touched any more.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	drop    time.Duration // how long Close may take

	mu     sync.Mutex
	closed bool
}

// deadline sets when the next bytes must have come; zero: whenever. It returns false once the body is closed.
func (b *body) deadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	_ = b.control.SetReadDeadline(at) // a server that knows none has its own ways
	return true
}

func (b *body) Read(p []byte) (int, error) {
	if !b.deadline(time.Now().Add(bodyStall)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.deadline(time.Time{}) // or it would end what the connection is used for next
	}
	return n, err
}

// Close reads what is left, for HTTP/1, and that has its time too.
func (b *body) Close() error {
	if !b.deadline(time.Now().Add(b.drop)) {
		return nil
	}
	err := b.ReadCloser.Close()
	b.deadline(time.Time{})
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return err
}

// repeatable reads the body of a request, if it is small, so that a transport can send it again. It has to where the upstream closes the
// connection before it has looked at the request, as kube-apiserver does now and then to spread its clients.
func repeatable(r *http.Request) error {
	if r.ContentLength <= 0 || r.ContentLength > maxReplayed {
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

// dropBody reads the body of a request that is answered from here, where none is expected: over HTTP/1 net/http reads it before the first
// byte of the answer, and would wait for ever for what never comes. If there is too much of it, the connection is not used again. If it
// does not come, the request is answered and dropBody returns false.
func (s *Server) dropBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Body == nil {
		return true
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.opts.patience.drop))
	switch _, err := io.CopyN(io.Discard, r.Body, maxDropped); err {
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
