package proxy

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// bodyTimeout is how long a client may pause within a request body.
	bodyTimeout = time.Minute
	// maxDiscarded bounds how much of an unwanted body is read so that the connection can be
	// reused.
	maxDiscarded = 64 << 10
)

// maxBuffered bounds a request body that is buffered for a retry. All of them take maxBuffered
// times Options.MaxMutating.
const maxBuffered = 64 << 10

// requestBody is the body of a forwarded request. A transport may read it after its request was
// answered; then it must not touch the connection any more.
type requestBody struct {
	io.ReadCloser
	control      *http.ResponseController
	closeTimeout time.Duration // how long Close may take

	mu     sync.Mutex
	closed bool
}

// deadline sets the read deadline; zero means none. It returns false once the body is closed.
func (b *requestBody) deadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	_ = b.control.SetReadDeadline(at) // unsupported by some servers
	return true
}

func (b *requestBody) Read(p []byte) (int, error) {
	if !b.deadline(time.Now().Add(bodyTimeout)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.deadline(time.Time{}) // it must not apply to the next request
	}
	return n, err
}

// Close reads the rest, as HTTP/1 requires, within closeTimeout.
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

// bufferBody buffers a small request body, so that a transport can send it again. That happens when
// the upstream closes a connection before it has read the request, as kube-apiserver does now and
// then to spread its clients.
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

// discardBody reads the unexpected body of a request that the proxy answers. Over HTTP/1 net/http
// reads it before the first byte of the response, and would wait for ever for a body that never
// comes. A connection with too large a body is not reused. If the body does not come, discardBody
// answers the request and returns false.
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
	case nil: // keep the deadline: net/http reads on after the response
		w.Header().Set("Connection", "close")
		return true
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "the body did not come", http.StatusRequestTimeout)
	return false
}
