package api

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Backend is a server between clients and the cluster, such as a watch cache. It handles the
// clients' requests in place of the cluster's servers.
type Backend interface {
	http.Handler
}

// Behind makes backends handle the client's requests. Until Route selects another backend, the
// first backend handles all requests.
func (cl *Client) Behind(backends ...Backend) {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	cl.backends = backends
}

// relay sends a request to a backend, and returns the response as soon as the backend starts it.
// The request's plan, which contains its faults, decides how the body arrives.
func (cl *Client) relay(q *request, backend Backend) *http.Response {
	b := q.body(nil)
	a := &answer{changed: make(chan struct{}, 1), begun: make(chan struct{}), header: http.Header{}}
	go func() {
		defer a.finish()
		defer func() { // net/http treats panics in the same way
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		backend.ServeHTTP(a, q.Clone(b.ctx))
	}()
	select {
	case <-a.begun:
	case <-b.ctx.Done():
		<-a.begun // the handler notices that the client has given up, and starts a response or ends
	}
	b.source = a
	resp := q.respond(a.code, "", b)
	resp.Header = a.header
	return resp
}

// answer stores the bytes that a handler writes until the client reads them. It has no size limit,
// because worlds are small.
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
		a.header = a.header.Clone() // the handler may change its map later
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

// Flush implements http.Flusher. It starts the response. It need not do more, because clients can
// read written bytes without it.
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
