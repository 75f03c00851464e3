package api

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Backend answers requests in place of the cluster's servers: something that stands between them
// and a client.
type Backend interface {
	http.Handler
}

// Behind puts backends between a client and the cluster. Requests of the client go to the backend
// that it is routed to, at first to the first one.
func (cl *Client) Behind(backends ...Backend) {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	cl.backends = backends
}

// relay hands a request to a backend of the client, and returns the response once the backend has
// begun it. The body arrives as the plan says.
func (cl *Client) relay(q *request, p *plan, backend Backend) *http.Response {
	ctx, cancel := context.WithCancel(q.Context())
	a := &answer{changed: make(chan struct{}, 1), begun: make(chan struct{}), header: http.Header{}}
	go func() {
		defer a.finish()
		defer func() { // as net/http does
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		backend.ServeHTTP(a, q.Clone(ctx))
	}()
	select {
	case <-a.begun:
	case <-ctx.Done():
		<-a.begun // a handler whose client has given up begins an answer, or ends
	}
	resp := respond(q.Request, a.code, "", &relayed{body: *newBody(ctx, cl.cluster, nil, p), answer: a, cancel: cancel})
	resp.Header = a.header
	return resp
}

// answer buffers what a handler writes until the client reads it. It has no bound: worlds are
// small.
type answer struct {
	header  http.Header
	begun   chan struct{}
	once    sync.Once
	changed chan struct{}

	mu   sync.Mutex
	code int
	data []byte
	over bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code = code
		a.header = a.header.Clone() // the handler may go on to change the one that it has
		close(a.begun)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	a.data = append(a.data, p...)
	a.mu.Unlock()
	a.signal()
	return len(p), nil
}

// Flush implements http.Flusher. It begins the response; what was written can be read without it.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

func (a *answer) signal() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *answer) finish() {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.signal()
}

// relayed is the body of a relayed answer.
type relayed struct {
	body
	answer *answer
	cancel context.CancelFunc
}

func (b *relayed) Close() error {
	b.cancel()
	return b.body.Close()
}

// await blocks until there may be more to read, or a front end ends the body. It returns an error
// if the body is closed or its context ends first.
func (b *relayed) await() error {
	timer, stop := b.timer(0)
	defer stop()
	select {
	case <-b.answer.changed:
	case <-timer:
	case <-b.closed:
		return io.ErrClosedPipe
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	return nil
}

func (b *relayed) Read(p []byte) (int, error) {
	for {
		b.cluster.Yield()
		if err := b.gone(); err != nil {
			return 0, err
		}
		n, err := b.gate()
		if err != nil {
			return 0, err
		}
		a := b.answer
		a.mu.Lock()
		n = copy(p[:min(n, len(p))], a.data)
		a.data = a.data[n:]
		over := a.over
		a.mu.Unlock()
		if n > 0 {
			b.passed(n)
		}
		switch {
		case n > 0:
			return n, nil
		case over:
			return 0, io.EOF
		}
		if err := b.await(); err != nil {
			return 0, err
		}
	}
}
