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
// answered; then it must not touch the connection any more, see detach.
type requestBody struct {
	io.ReadCloser
	control      *http.ResponseController
	closeTimeout time.Duration // how long Close may take
	http2        bool          // a passed deadline ends the body, even without a Read

	mu      sync.Mutex
	budget  *waitBudget // nil: the client may go on for as long as it sends something
	failure error       // why the client did not send it; nil: it did so far
	closing bool        // Close has begun
	closed  bool        // the connection must not be touched any more
}

const (
	// bodyTimeout is how long a client may pause within a request body.
	bodyTimeout = time.Minute
	// maxDiscarded bounds how much of an unwanted body is read so that the connection can be
	// reused.
	maxDiscarded = 64 << 10
)

// maxBuffered bounds a request body that is buffered for a retry. Those of requests with seats take
// maxBuffered times the seats at most; those of long-running requests count as bodyBytes.
const maxBuffered = 64 << 10

// isBuffered reports whether the body of a request is buffered for a retry.
func isBuffered(r *http.Request) bool { return r.ContentLength > 0 && r.ContentLength <= maxBuffered }

// limitBody bounds how long a request that is to be forwarded waits for its body. The client of a
// request with a seat must keep a pace, and that of a buffered body a quicker one, since it is not
// authenticated yet. The caller must detach it before the handler returns.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request, seated bool) (detach func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	wait := s.opts.timeouts
	body := &requestBody{ReadCloser: r.Body, control: http.NewResponseController(w), closeTimeout: wait.discard, http2: r.ProtoMajor == 2}
	switch {
	case isBuffered(r):
		body.budget = &waitBudget{grace: wait.discard}
	case seated:
		body.budget = &waitBudget{grace: wait.body}
	}
	r.Body = body
	return body.detach
}

// detach ends what the body does with the connection. A transport that still reads, since the
// upstream has answered without reading all, would set deadlines of a response that is over, and
// net/http's for HTTP/2 panics then. ReverseProxy closes a body of its own, and not this one.
func (b *requestBody) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// limit has reads end within a time, and no later than the budget allows. It returns false once the
// body is closed.
func (b *requestBody) limit(within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.budget != nil {
		within = min(within, b.budget.left())
	}
	return b.setDeadline(time.Now().Add(within))
}

// unlimit clears the deadline. It must not apply to the next request.
func (b *requestBody) unlimit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setDeadline(time.Time{})
}

// setDeadline sets the read deadline; zero means none. It returns false once the body is closed.
// The caller holds the lock.
func (b *requestBody) setDeadline(at time.Time) bool {
	if !b.closed {
		_ = b.control.SetReadDeadline(at) // unsupported by some servers
	}
	return !b.closed
}

func (b *requestBody) Read(p []byte) (int, error) {
	begun := time.Now()
	if !b.limit(bodyTimeout) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	b.noteRead(n, err, begun)
	return n, err
}

// noteRead notes what a read that began at begun has brought. Over HTTP/1 the deadline stays until
// the end of the body: net/http itself may be reading what is left, to answer the request.
func (b *requestBody) noteRead(n int, err error, begun time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.budget != nil {
		b.budget.moved(n, begun)
	}
	if err != nil && err != io.EOF && !b.closing {
		b.failure = err
	}
	if err == io.EOF || b.http2 {
		b.setDeadline(time.Time{})
	}
}

// failed returns why the client did not send the body, or nil.
func (b *requestBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Close reads the rest, as HTTP/1 requires, within closeTimeout.
func (b *requestBody) Close() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	if !b.limit(b.closeTimeout) {
		return nil
	}
	err := b.ReadCloser.Close()
	b.unlimit()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return err
}

// bufferBody buffers a small request body, so that a transport can send it again. That happens when
// the upstream closes a connection before it has read the request, as kube-apiserver does now and
// then to spread its clients.
func bufferBody(r *http.Request) error {
	if r.Body == nil || !isBuffered(r) {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	if closed := r.Body.Close(); err == nil {
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
	return statusError(http.StatusRequestTimeout, metav1.StatusReasonTimeout, "the body of the request did not come")
}

// discardBody reads the unexpected body of a request that the proxy answers. Over HTTP/1 net/http
// reads it before the first byte of the response, and would wait for ever for a body that never
// comes. A connection with too large a body is not reused. If the body does not come, discardBody
// returns the error to answer with.
func (s *Server) discardBody(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.ContentLength == 0 || r.Body == nil:
		return nil
	case r.ProtoMajor != 1:
		_ = r.Body.Close() // drops what came: a WATCH would keep it
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

const (
	// seatGrace and seatPace bound how long a client with a seat is waited for, see waitBudget.
	// Package watchcache counts bytes before compression and has a pace of eight times as many; a
	// forwarded answer may come compressed.
	seatGrace = time.Minute
	seatPace  = 32 << 10 // bytes a second
)

// waitBudget bounds how long one request keeps a seat because of its client, whose body comes a
// little at a time, or who takes the answer so. At any time the client must have been waited for no
// longer than grace, and a second for each seatPace bytes. The time in which the upstream does
// nothing does not count.
type waitBudget struct {
	grace  time.Duration
	bytes  int64
	waited time.Duration
}

// left returns how long the client may be waited for now. It is not positive if the client is too
// slow.
func (b *waitBudget) left() time.Duration {
	return b.grace + time.Duration(float64(b.bytes)/seatPace*float64(time.Second)) - b.waited
}

// moved notes that the client was waited for since begun, and has sent or taken n bytes.
func (b *waitBudget) moved(n int, begun time.Time) {
	b.bytes += int64(n)
	b.waited += time.Since(begun)
}
