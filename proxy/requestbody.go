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

	"github.com/weirproject/weir/internal/serve/watchcache"
)

// requestBody is the body of a forwarded request. A transport may still call Read after the proxy
// has answered the request. After detach, such a Read fails and does not use the connection.
type requestBody struct {
	io.ReadCloser
	control      *http.ResponseController
	closeTimeout time.Duration // how long Close may take
	http2        bool          // after a deadline has passed, the body fails even without a Read

	mu      sync.Mutex
	budget  *waitBudget // nil: the client may continue as long as it sends something
	failure error       // why the client did not send the whole body; nil: no read has failed
	closing bool        // Close was called
	closed  bool        // the connection must not be used any more
}

const (
	// bodyTimeout is how long a client may pause while it sends a request body.
	bodyTimeout = time.Minute
	// maxDiscarded bounds how much of an unwanted body the proxy reads in order to reuse the
	// connection.
	maxDiscarded = 64 << 10
)

// maxBuffered bounds a request body that is buffered for a retry. The number of seats bounds the
// short requests, so their buffered bodies use at most maxBuffered times that number. bodyBytes
// estimates the buffered bodies of long-running requests.
const maxBuffered = 64 << 10

// isBuffered reports whether the body of a request is buffered for a retry.
func isBuffered(r *http.Request) bool { return r.ContentLength > 0 && r.ContentLength <= maxBuffered }

// limitBody bounds how long a forwarded request waits for its body. The client of a short request,
// which occupies a seat, must send at a minimum pace. The client of a buffered body has less time,
// because the proxy reads that body before the upstream authenticates the request. The caller must
// call detach before the handler returns.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request, seated bool) (detach func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	wait := s.opts.timeouts
	body := &requestBody{ReadCloser: r.Body, control: http.NewResponseController(w), closeTimeout: wait.discard, http2: r.ProtoMajor == 2}
	if isBuffered(r) {
		body.budget = &waitBudget{grace: wait.discard}
	} else if seated {
		body.budget = &waitBudget{grace: wait.body}
	}
	r.Body = body
	return body.detach
}

// detach stops the body from using the connection. If the upstream answers before it has read the
// whole body, a transport may still read the body. Each read would set a deadline on a response
// that has ended. For HTTP/2, net/http then panics. ReverseProxy closes only its own wrapper of the
// body, not this body.
func (b *requestBody) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// limit sets a deadline for reads. within is the time until the deadline; if the budget requires
// it, the deadline is earlier. If the body is closed, limit sets no deadline and returns false.
func (b *requestBody) limit(within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.budget != nil {
		within = min(within, b.budget.left())
	}
	return b.setDeadline(time.Now().Add(within))
}

// setDeadline sets the read deadline; zero means none. If the body is closed, it does nothing and
// returns false. The caller holds the lock.
func (b *requestBody) setDeadline(at time.Time) bool {
	if !b.closed {
		_ = b.control.SetReadDeadline(at) // some servers do not support it
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

// noteRead records the result of a read that started at the given time (begun). Over HTTP/1, the
// deadline remains set until the end of the body, because net/http itself may read the rest when
// the handler answers.
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

// failed returns the error because of which the client's body is incomplete, or nil.
func (b *requestBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Close reads the rest of the body, as HTTP/1 requires. The deadline for these reads is
// closeTimeout.
func (b *requestBody) Close() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	if !b.limit(b.closeTimeout) {
		return nil
	}
	err := b.ReadCloser.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setDeadline(time.Time{}) // it would otherwise apply to the next request on the connection
	b.closed = true
	return err
}

// bufferBody buffers a small request body, so that a transport can send it again. A transport does
// so when the upstream closes a connection before it has read the request. kube-apiserver
// occasionally closes connections to distribute its clients.
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
	return errNoBody
}

// errNoBody is the 408 for a request whose body was not received in time.
var errNoBody = watchcache.NewStatusError(http.StatusRequestTimeout, metav1.StatusReasonTimeout, "the body of the request did not arrive")

// discardBody reads and drops the unexpected body of a request that the proxy answers. Over HTTP/1,
// net/http reads the body before it sends the first byte of the response, and would wait forever
// for a body that never arrives. If the body has maxDiscarded bytes or more, the connection is not
// reused. If the body is not received in time, discardBody returns the error to answer with.
func (s *Server) discardBody(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.ContentLength == 0 || r.Body == nil:
		return nil
	case r.ProtoMajor != 1:
		// Drop the received bytes, which would otherwise remain in memory as long as a WATCH.
		_ = r.Body.Close()
		return nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.opts.timeouts.discard))
	switch _, err := io.CopyN(io.Discard, r.Body, maxDiscarded); err {
	case io.EOF:
		_ = control.SetReadDeadline(time.Time{})
		return nil
	case nil: // keep the deadline: net/http continues to read after the response
		w.Header().Set("Connection", "close")
		return nil
	}
	w.Header().Set("Connection", "close")
	return errNoBody
}

const (
	// seatGrace and seatPace bound how long the proxy waits for the client of a request that occupies
	// a seat (a place among the requests in progress), see waitBudget. The pace in package watchcache
	// is eight times higher, because watchcache counts bytes before compression. A forwarded response
	// may arrive compressed.
	seatGrace = time.Minute
	seatPace  = 32 << 10 // bytes a second
)

// waitBudget bounds how long a slow client can occupy a seat, that is, a place among the requests
// in progress. Such a client sends its body or reads the response in small pieces. At any time, the
// total wait for the client must not exceed grace plus one second for each seatPace bytes. Time in
// which the proxy waits for the upstream does not count.
type waitBudget struct {
	grace  time.Duration
	bytes  int64
	waited time.Duration
}

// left returns how much longer the proxy may wait for the client. The result is zero or negative if
// the client is too slow.
func (b *waitBudget) left() time.Duration {
	return b.grace + time.Duration(float64(b.bytes)/seatPace*float64(time.Second)) - b.waited
}

// moved records that the proxy has waited for the client since the given time (begun), and that the
// client has sent or read n bytes.
func (b *waitBudget) moved(n int, begun time.Time) {
	b.bytes += int64(n)
	b.waited += time.Since(begun)
}
