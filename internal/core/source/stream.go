package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

type listBody struct {
	*wire.ListReader
	enc    wire.Encoding
	stream *stream
}

func (l *listBody) Next() (Object, error) {
	raw, err := l.ListReader.Next()
	return Object{Raw: raw}, err
}

func (l *listBody) Encoding() wire.Encoding { return l.enc }

func (l *listBody) Close() error { return l.stream.Close() }

type watchBody struct {
	*wire.WatchReader
	enc    wire.Encoding
	stream *stream
}

func (w *watchBody) Next() (Event, error) {
	e, err := w.WatchReader.Next()
	return Event{e.Type, e.TypeMeta, Object{Raw: e.Object}}, err
}

func (w *watchBody) Encoding() wire.Encoding { return w.enc }

func (w *watchBody) BeforeRead(f func()) {
	w.stream.readAhead.before = f
}

func (w *watchBody) Close() error { return w.stream.Close() }

// NewList returns a List that reads resp, the response to a LIST request. List.Close closes the
// body. If NewList returns an error, it has closed the body. A response whose code is not 200
// causes an error. opts.HeaderTimeout is not used.
func NewList(resp *http.Response, opts Options) (List, error) {
	l, err := newList(newStream("LIST", resp, nil, opts), resp, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func newList(s *stream, resp *http.Response, opts Options) (*listBody, error) {
	r, enc, err := s.open(resp)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &listBody{wire.NewListReader(r, enc, opts.Limits), enc, s}, nil
}

// NewWatch returns a Watch that reads resp, the response to a WATCH request. Watch.Close closes the
// body. If NewWatch returns an error, it has closed the body. A watch that lasts 30 s longer than
// timeout fails with ErrStalled. Timeout 0 means no limit.
func NewWatch(resp *http.Response, timeout time.Duration, opts Options) (Watch, error) {
	return newWatch(newStream("WATCH", resp, nil, opts), resp, timeout, opts)
}

func newWatch(s *stream, resp *http.Response, timeout time.Duration, opts Options) (Watch, error) {
	r, enc, err := s.open(resp)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.idle = 0 // a watch may be idle for long; endAfter limits its whole duration
	// Only a watch is read ahead. For a LIST, another goroutine would cost CPU time and save no time:
	// with or without it, the reader of a list must wait for the server.
	s.readAhead = newReadAhead(r, s.fail)
	if timeout > 0 {
		s.endAfter(timeout + watchGrace)
	}
	return &watchBody{wire.NewWatchReader(s.readAhead, enc, opts.Limits), enc, s}, nil
}

// watchGrace is how long a watch may last after the timeout that its request contained.
const watchGrace = 30 * time.Second

// stream is the body of a response. Close, a timer or the context can end it. Read counts the
// received bytes.
type stream struct {
	body         io.ReadCloser
	method, path string
	stats        *Stats // counts received and decompressed bytes
	ctx          context.Context
	cancel       context.CancelCauseFunc // nil if another client sent the request

	readAhead *readAhead    // nil if the body is not read ahead
	idle      time.Duration // how long one Read may wait; 0 means no limit
	waiting   *time.Timer   // runs during Read

	mu       sync.Mutex
	deadline *time.Timer // runs from endAfter to Close
	cause    error       // why Close or a timer ended the stream
	closed   bool
}

func newStream(method string, resp *http.Response, cancel context.CancelCauseFunc, opts Options) *stream {
	s := &stream{body: resp.Body, method: method, stats: opts.stats(), cancel: cancel, idle: opts.idleTimeout()}
	if resp.Request != nil {
		s.ctx = resp.Request.Context()
		if resp.Request.URL != nil {
			s.path = resp.Request.URL.Path
		}
	}
	return s
}

// open checks the status code and the headers, and returns the decompressed body.
func (s *stream) open(resp *http.Response) (io.Reader, wire.Encoding, error) {
	if resp.StatusCode != http.StatusOK {
		return nil, 0, statusError(s.method, s.path, resp, s)
	}
	r, err := wire.NewBody(s, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, 0, s.fail(fmt.Errorf("%w: %w", ErrMediaType, err))
	}
	r = &counter{r, &s.stats.BodyBytes}
	if resp.Header.Get("Content-Type") == "" {
		return s.openUntyped(r)
	}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, 0, s.fail(fmt.Errorf("%w: %w", ErrMediaType, err))
	}
	return r, enc, nil
}

// openUntyped returns the encoding of a body without a content type, and a reader of that body. It
// guesses the encoding of a list from the first bytes. A watch may send its first bytes late. So
// for a watch, openUntyped does not wait for bytes but returns JSON, as client-go does.
func (s *stream) openUntyped(r io.Reader) (io.Reader, wire.Encoding, error) {
	if s.method == "WATCH" {
		return r, wire.JSON, nil
	}
	start := make([]byte, 4)
	n, err := io.ReadFull(r, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, 0, s.fail(err)
	}
	enc, err := wire.EncodingAt(start[:n])
	if err != nil {
		return nil, 0, s.fail(fmt.Errorf("%w: %w", ErrMediaType, err))
	}
	return io.MultiReader(bytes.NewReader(start[:n]), r), enc, nil
}

// Read reads the body as the server sent it, before decompression. An error other than io.EOF is a
// *RequestError.
func (s *stream) Read(p []byte) (int, error) {
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
	s.stats.WireBytes.Add(int64(n))
	if err != nil && err != io.EOF {
		err = s.fail(err)
	}
	return n, err
}

// Limits of readRest. To read more than maxRest bytes would cost more than a new connection with a
// TLS handshake.
const (
	maxRest  = 16 << 10 // in bytes
	restIdle = time.Second
)

// readRest reads the rest of a body, but at most maxRest bytes, and ends if no byte arrives for
// restIdle. HTTP/1.1 can reuse a connection only if the body of the last response was read to its
// end.
func (s *stream) readRest() {
	s.idle = restIdle
	_, _ = io.CopyN(io.Discard, s, maxRest)
}

// fail returns a *RequestError that names the request. It replaces the transport's error by the
// reason why Close, a timer or the context ended the stream, if one of them did.
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

// endAfter makes the stream fail with ErrStalled after d, unless the stream is closed first.
func (s *stream) endAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.deadline = time.AfterFunc(d, func() { s.abort(ErrStalled) })
	}
}

// Close ends the stream; see List.Close.
func (s *stream) Close() error { return s.abort(net.ErrClosed) }

// abort ends the stream with the given cause. Only the first call has an effect.
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
	// Cancel the context first, so that closing the body does not block.
	if s.cancel != nil {
		s.cancel(cause)
	}
	if s.readAhead != nil {
		s.readAhead.stop()
	}
	return s.body.Close()
}
