package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requestBody is the body of a forwarded request. A transport may read it after its request was
// answered; then it must not touch the connection any more.
type requestBody struct {
	io.ReadCloser
	control      *http.ResponseController
	closeTimeout time.Duration // how long Close may take
	wholeBy      time.Time     // when all of it must have come; zero: a client may go on for as long as it sends something

	mu     sync.Mutex
	closed bool
}

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

// limit has reads end within a time, and no later than wholeBy. It returns false once the body is
// closed.
func (b *requestBody) limit(within time.Duration) bool {
	at := time.Now().Add(within)
	if !b.wholeBy.IsZero() && b.wholeBy.Before(at) {
		at = b.wholeBy
	}
	return b.deadline(at)
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
	if !b.limit(bodyTimeout) {
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
	if !b.limit(b.closeTimeout) {
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
// then to spread its clients. Nobody has authenticated the client yet, so a body that does not come
// within a time gives up the request's seat.
func bufferBody(r *http.Request, body *requestBody, within time.Duration) error {
	if r.ContentLength <= 0 || r.ContentLength > maxBuffered {
		return nil
	}
	body.wholeBy = time.Now().Add(within)
	raw, err := io.ReadAll(body)
	if closed := body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	r.Body, err = r.GetBody()
	return err
}

// bodyError returns the Status for a request whose body could not be read.
func bodyError(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return apierrors.NewBadRequest("the body of the request: " + err.Error())
	}
	return errNoBody()
}

// errNoBody returns the 408 for a request whose body did not come.
func errNoBody() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: "the body of the request did not come",
	}}
}

// discardBody reads the unexpected body of a request that the proxy answers. Over HTTP/1 net/http
// reads it before the first byte of the response, and would wait for ever for a body that never
// comes. A connection with too large a body is not reused. If the body does not come, discardBody
// returns the error to answer with.
func (s *Server) discardBody(w http.ResponseWriter, r *http.Request) error {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.opts.timeouts.discard))
	switch _, err := io.CopyN(io.Discard, r.Body, maxDiscarded); err {
	case io.EOF:
		_ = control.SetReadDeadline(time.Time{})
		return nil
	case nil: // keep the deadline: net/http reads on after the response
		w.Header().Set("Connection", "close")
		return nil
	}
	w.Header().Set("Connection", "close")
	return errNoBody()
}
