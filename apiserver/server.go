package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/serve/secure"
)

// Server is an API server. It is an [http.Handler], ready when New returns. Start, Run and Config
// make it listen on TCP. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	handler  http.Handler // serve, behind secure.LocalOnly
	faults   *Faults
	clock    *revisionClock
	registry registry
	recorder recorder
	released chan struct{} // closed by Close; ends Rule.Hold

	stop  context.CancelFunc // ends the churn
	churn sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil until Start
	server   *http.Server
	served   chan struct{} // closed when the listener's goroutine has ended
	closed   bool
	requests sync.WaitGroup // running calls of serve; no more are added after closed is set
}

// ErrClosed is returned by Start, Run and Register when the server is closed.
var ErrClosed = errors.New("apiserver: closed")

// firstVersion is the resourceVersion of an empty server. The server answers 410 to requests for
// changes after lower resourceVersions. It is not 0 or 1, because these have special meanings.
const firstVersion = 1000

// New returns a server with its initial objects. The server does not listen yet, and can be used
// immediately as an [http.Handler]. The caller must Close it.
func New(o Options) (*Server, error) {
	s := &Server{
		opts:   o,
		faults: cmp.Or(o.Faults, &Faults{}),
		clock:  &revisionClock{now: firstVersion},
		stop:   func() {},

		released: make(chan struct{}),
		recorder: recorder{
			started: time.Now(), audit: o.AuditLog,
			counts: map[requestLabels]*requestCount{{verb: otherVerb, code: http.StatusOK}: {}},
			open:   map[schema.GroupVersionResource]int{},
		},
		registry: registry{
			resources: map[schema.GroupVersionResource]*servedResource{},
			storages:  map[schema.GroupResource]*storage{},
		},
	}
	s.handler = secure.LocalOnly(http.HandlerFunc(s.serve))
	if err := s.registerAll(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// registerAll registers the built-in resources and Options.Resources, and creates the initial
// objects.
func (s *Server) registerAll() error {
	all, err := builtins()
	if err != nil {
		return err
	}
	for _, b := range all {
		if err := s.register(b.Resource, b.goType, b.strategy); err != nil {
			return err
		}
	}
	for _, r := range s.opts.Resources {
		if err := s.Register(r); err != nil {
			return err
		}
	}
	return s.seed()
}

// Start starts to listen and returns. A second call does nothing. After Close, Start returns
// ErrClosed.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", cmp.Or(s.opts.Listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	s.listener, s.served = l, make(chan struct{})
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(l) // always an error; http.ErrServerClosed after Close
	}()
	return nil
}

// Run starts the server, blocks until ctx ends, and then closes the server. It returns nil unless
// starting or closing fails.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// URL returns the server's address, for example http://127.0.0.1:33017. It is empty before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// Config returns a client configuration for the server, without a request limit. Each call returns
// a new configuration. If the server does not listen yet, Config calls Start. If Start fails, for
// example because the server is closed, each request with the configuration fails immediately with
// the error of Start.
func (s *Server) Config() *rest.Config {
	if err := s.Start(); err != nil {
		return &rest.Config{Host: unstartedHost, QPS: -1, Transport: failing{err}}
	}
	return &rest.Config{Host: s.URL(), QPS: -1}
}

// unstartedHost is the host in the configuration of a server that could not start. The
// configuration's transport sends no request to this host.
const unstartedHost = "http://127.0.0.1:0"

// failing is a transport whose requests fail with err.
type failing struct{ err error }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close() // required by the contract of RoundTripper
	}
	return nil, f.err
}

// Compact drops the past changes of all resources, up to the current resourceVersion. Requests that
// need these changes receive 410 Expired.
func (s *Server) Compact() {
	for _, res := range s.registry.all() {
		res.cache.Compact()
	}
}

// ResourceVersion returns the resourceVersion of the last write.
func (s *Server) ResourceVersion() uint64 {
	var now uint64
	s.clock.Observe(func(rv uint64) { now = rv })
	return now
}

// begin counts a request in s.requests. It returns false if the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.requests.Add(1)
	return true
}

// Close ends every request, including watches, and blocks until they have ended. A second call does
// nothing. A request whose client does not send the whole body ends only when the HTTP server
// closes its connection. If the program calls ServeHTTP from another HTTP server, that server must
// close such connections; otherwise Close blocks.
func (s *Server) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	server, served := s.server, s.served
	s.mu.Unlock()
	if already {
		return nil
	}
	s.StopChurn()
	close(s.released)
	s.registry.close()
	var err error
	if server != nil {
		err = server.Close()
		<-served
	}
	s.requests.Wait()
	return err
}
