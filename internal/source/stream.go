package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/wire"
)

// List is the answer to a LIST: its items one by one, then io.EOF, and whatever wire.ListReader
// tells about the list. It is used by one goroutine at a time, but for Close, which may come from
// any. Close it in any case.
type List struct {
	*wire.ListReader
	enc    wire.Encoding
	stream *stream
}

// Encoding is the encoding of the answer.
func (l *List) Encoding() wire.Encoding { return l.enc }

// Close ends the request and frees the connection. It reads nothing, does not wait for the server,
// and makes a Next that is under way fail. Closing twice is harmless.
func (l *List) Close() error { return l.stream.Close() }

// Watch is the answer to a WATCH: its events one by one, then io.EOF when the server ends it. Use
// and Close as with List.
type Watch struct {
	*wire.WatchReader
	enc    wire.Encoding
	stream *stream
}

// Encoding is the encoding of the answer.
func (w *Watch) Encoding() wire.Encoding { return w.enc }

// BeforeRead sets a function that Next calls each time before it has to wait for the connection. A
// reader that applies events in batches applies there what it has, whatever part of the next event
// has come. f must not call Next.
func (w *Watch) BeforeRead(f func()) {
	if w.stream.readAhead != nil {
		w.stream.readAhead.before = f
	} else {
		w.stream.before = f
	}
}

// Close is List.Close.
func (w *Watch) Close() error { return w.stream.Close() }

// NewList makes a List of the answer to a LIST request, which it takes over: the body is closed by
// Close, or here on an error. An answer other than 200 is its error. Of opts, HeaderTimeout and
// Compression mean nothing here.
func NewList(resp *http.Response, opts Options) (*List, error) {
	return newList(newStream("LIST", resp, nil, opts), resp, opts)
}

func newList(s *stream, resp *http.Response, opts Options) (*List, error) {
	r, enc, err := s.open(resp)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &List{wire.NewListReader(r, enc, opts.Limits), enc, s}, nil
}

// NewWatch makes a Watch of the answer to a WATCH request, as NewList does. A watch that still
// stands 30 s after timeout is broken off with ErrStalled; timeout 0 is no such end.
func NewWatch(resp *http.Response, timeout time.Duration, opts Options) (*Watch, error) {
	return newWatch(newStream("WATCH", resp, nil, opts), resp, timeout, opts)
}

func newWatch(s *stream, resp *http.Response, timeout time.Duration, opts Options) (*Watch, error) {
	r, enc, err := s.open(resp)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.idle = 0 // nothing may happen for long; deadline ends a dead connection
	// A LIST is not read ahead: there the server is what is waited for, and to hand its bytes on
	// would only cost CPU.
	s.readAhead = newReadAhead(r, s.fail)
	if timeout > 0 {
		s.endAfter(timeout + watchGrace)
	}
	return &Watch{wire.NewWatchReader(s.readAhead, enc, opts.Limits), enc, s}, nil
}

// ReadList makes a List of a body that did not come with an HTTP answer: a recording, a pipe.
func ReadList(body io.ReadCloser, enc wire.Encoding, lim wire.Limits) *List {
	s := &stream{body: body, method: "LIST"}
	return &List{wire.NewListReader(s, enc, lim), enc, s}
}

// ReadWatch is ReadList for events.
func ReadWatch(body io.ReadCloser, enc wire.Encoding, lim wire.Limits) *Watch {
	s := &stream{body: body, method: "WATCH"}
	return &Watch{wire.NewWatchReader(s, enc, lim), enc, s}
}

// watchGrace is how long a watch may outlive the timeout that the server was given.
const watchGrace = 30 * time.Second

// stream is a body with an end: by Close, by its timers, by its context. Read counts the bytes of
// the wire.
type stream struct {
	body         io.ReadCloser
	method, path string
	wire, plain  *atomic.Int64 // where to count bytes; nil: nowhere
	ctx          context.Context
	cancel       context.CancelCauseFunc // nil: the request is somebody else's

	readAhead *readAhead    // nil: nothing is read ahead
	before    func()        // called before each Read, or nil
	idle      time.Duration // how long one Read may wait; 0 is for ever
	waiting   *time.Timer   // runs during Read

	mu       sync.Mutex
	deadline *time.Timer // runs from endAfter to Close
	cause    error       // why the stream was broken off from this side
	closed   bool
}

func newStream(method string, resp *http.Response, cancel context.CancelCauseFunc, opts Options) *stream {
	s := &stream{body: resp.Body, method: method, cancel: cancel, idle: opts.idleTimeout()}
	if resp.Request != nil {
		s.ctx = resp.Request.Context()
		if resp.Request.URL != nil {
			s.path = resp.Request.URL.Path
		}
	}
	if opts.Stats != nil {
		s.wire, s.plain = &opts.Stats.WireBytes, &opts.Stats.BodyBytes
	}
	return s
}

// open checks the answer's head and gives the decompressed body.
func (s *stream) open(resp *http.Response) (io.Reader, wire.Encoding, error) {
	if resp.StatusCode != http.StatusOK {
		return nil, 0, statusError(s.method, s.path, resp, s)
	}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, 0, s.fail(fmt.Errorf("%w: %w", ErrMediaType, err))
	}
	r, err := wire.NewBody(s, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, 0, s.fail(fmt.Errorf("%w: %w", ErrMediaType, err))
	}
	if s.plain != nil {
		r = &counter{r, s.plain}
	}
	return r, enc, nil
}

// Read reads the body as it came. An error other than io.EOF is a *RequestError.
func (s *stream) Read(p []byte) (int, error) {
	if s.before != nil {
		s.before()
	}
	if s.idle > 0 {
		if s.waiting == nil {
			s.waiting = time.AfterFunc(s.idle, func() { s.abort(ErrStalled) })
		} else {
			s.waiting.Reset(s.idle)
		}
	}
	n, err := s.body.Read(p)
	if s.waiting != nil {
		s.waiting.Stop()
	}
	if s.wire != nil {
		s.wire.Add(int64(n))
	}
	if err != nil && err != io.EOF {
		err = s.fail(err)
	}
	return n, err
}

// fail names the request and puts the reason why this side ended it in place of what the transport
// made of it.
func (s *stream) fail(err error) error {
	s.mu.Lock()
	cause := s.cause
	s.mu.Unlock()
	if cause == nil && s.ctx != nil {
		cause = context.Cause(s.ctx)
	}
	if cause != nil {
		err = cause
	}
	if own, ok := errors.AsType[*RequestError](err); ok {
		return own
	}
	return &RequestError{s.method, s.path, err}
}

// endAfter breaks the stream off with ErrStalled when it still stands after d.
func (s *stream) endAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.deadline = time.AfterFunc(d, func() { s.abort(ErrStalled) })
	}
}

// Close ends the stream, as List.Close tells.
func (s *stream) Close() error { return s.abort(net.ErrClosed) }

// abort ends the stream for a reason; the first one stands.
func (s *stream) abort(cause error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed, s.cause = true, cause
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.mu.Unlock()
	// The context first: then closing the body has nothing left to wait for.
	if s.cancel != nil {
		s.cancel(cause)
	}
	if s.readAhead != nil {
		s.readAhead.stop()
	}
	return s.body.Close()
}
