package api

import (
	"io"
	"net/http"
	"sync"
	"time"
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
func (cl *Client) relay(q *request, backend Backend) *http.Response {
	b := q.body(nil)
	a := &answer{changed: make(chan struct{}, 1), begun: make(chan struct{}), header: http.Header{}}
	go func() {
		defer a.finish()
		defer func() { // as net/http does
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		backend.ServeHTTP(a, q.Clone(b.ctx))
	}()
	select {
	case <-a.begun:
	case <-b.ctx.Done():
		<-a.begun // a handler whose client has given up begins an answer, or ends
	}
	b.source = a
	resp := q.respond(a.code, "", b)
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

// next implements source.
func (a *answer) next(b *body) (<-chan struct{}, time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.data, a.data = a.data, nil
	if len(b.data) == 0 && a.over {
		return nil, 0, io.EOF
	}
	return a.changed, 0, nil
}
