package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/workers"
	"github.com/weirproject/weir/proxy/internal/audit"
)

// Server is a caching proxy. It is an [http.Handler] too, but only its own listener receives client
// certificates. Its methods are safe for concurrent use.
type Server struct {
	opts         Options
	authn        *authentication
	authz        *authorization
	upstream     *upstream
	resources    *resources
	flowControl  *flowControl
	unread       unreadMemory
	heads        *budget.Budget // of request heads
	workers      *workers.Pool  // begin watches, and send to them
	health       health
	cert         *servingCertificate
	auditor      *audit.Recorder
	ownTransport http.RoundTripper // for the proxy's own requests

	registry      *prometheus.Registry
	metrics       *requestMetrics
	served        *prometheus.CounterVec
	revoked       atomic.Uint64
	rechecker     *rechecker
	servedWatches servedWatches

	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup // goroutines of Start
	mu       sync.Mutex
	listener *connections // nil until Start
	// servers has none until Start. The second serves connections that come while the first shuts
	// down.
	servers  []*http.Server
	probes   *http.Server // of Options.HealthListen; nil: there is none
	closed   bool
	leave    func()         // the page of package debug; nil until Start
	inFlight sync.WaitGroup // in ServeHTTP; not added to once closed is set

	shutdownPhase    atomic.Int32   // a shutdownPhase
	unfinished       requestCounter // requests that a shutdown waits for
	forwardedWatches forwardedWatches
}

// ErrClosed is returned by the methods of a closed server.
var ErrClosed = errors.New("proxy: closed")

const (
	// maxHeader bounds the head of a request, in bytes: a query of maxQuery, a token, and the
	// groups of a front proxy's user. Each of many connections may have sent one before its caller
	// is known.
	maxHeader = 256 << 10
	// maxStreams bounds the concurrent streams of an HTTP/2 connection.
	maxStreams = 250
	// frameSize and the two windows bound what an HTTP/2 connection buffers of its client's data.
	// They are much smaller than the defaults, because bodies are small and connections many.
	frameSize        = 16 << 10
	streamWindow     = maxBuffered
	connectionWindow = 256 << 10
	// closeTimeout is how long Close waits for requests before it closes their connections.
	closeTimeout = 3 * time.Second
)

// New returns a proxy. It reads the upstream's CAs, bounded by ctx. The proxy does not listen and
// caches nothing until Start; the caller must Close it in any case. It returns ErrInvalidOptions
// for invalid options, or an error that says which certificate cannot be read or written, or that
// the upstream cannot be reached.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Upstream == nil {
		return nil, fmt.Errorf("%w: no upstream", ErrInvalidOptions)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	cfg := source.CopyConfig(o.Upstream)
	cfg.QPS = -1 // bounded by callers and caches
	br := &breaker{}
	ownConfig := rest.CopyConfig(cfg)
	ownConfig.Wrap(br.wrap)
	ownClient, err := rest.HTTPClientFor(ownConfig)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	client, err := kubernetes.NewForConfigAndClient(ownConfig, ownClient)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	s := &Server{opts: o, ownTransport: ownClient.Transport, flowControl: newFlowControl(&o), unread: newUnreadMemory(o.ResponseMemory), heads: newHeadBudget()}
	s.rechecker = newRechecker(o.Recheck, o.RecheckMax, o.OutageGrace, s.recheckCaller)
	s.closing, s.close = context.WithCancel(context.Background())
	s.health.client, s.health.reviews = client.Discovery().RESTClient(), client.AuthorizationV1().SubjectAccessReviews()
	br.probe = s.health.reachedSince
	if s.resources, err = newResources(o, cfg, discoverer{client.Discovery().RESTClient(), o.timeouts.review}); err != nil {
		return nil, err
	}
	s.workers = s.resources.workers
	s.resources.onWentBack = s.forwardedWatches.endAll
	s.flowControl.longRunning.connections, s.flowControl.longRunning.kept = s.connected, s.resources.kept.Load
	s.resources.watchExcess = s.flowControl.longRunning.memoryExcess
	if s.upstream, err = newUpstream(cfg, &o); err != nil {
		return nil, err
	}
	s.upstream.refuse = s.refuse
	if s.cert, err = newServingCertificate(&o); err != nil {
		return nil, err
	}
	if s.authn, err = newAuthentication(ctx, &o, client, br, s.flowControl.reviews); err != nil {
		return nil, err
	}
	s.upstream.isFrontProxyHeader = func(name string) bool { return s.authn.cas.Load().namesCallerUpstream(name) }
	s.upstream.onAccepted, s.upstream.onMissed = s.learnOwner, s.askOwner
	s.upstream.onDenied = s.authn.forgetOwner
	if s.authz, err = newAuthorization(&o, client, br, s.flowControl.reviews); err != nil {
		return nil, err
	}
	if s.auditor, err = audit.New(audit.Config(o.Audit)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	s.registerMetrics()
	return s, nil
}

// Start listens, starts caching resources, and returns. A second call does nothing. It returns
// ErrClosed after Close.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.opts.Listen)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if err := s.auditor.Start(); err != nil {
		return errors.Join(fmt.Errorf("proxy: %w", err), l.Close())
	}
	if err := s.startProbes(); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener = newConnections(l, s.opts.MaxConnections, s.opts.MaxConnectionsPerSource, s.heads)
	for range 2 {
		server, err := s.newServer(s.listener)
		if err != nil {
			return errors.Join(fmt.Errorf("proxy: %w", err), l.Close())
		}
		s.servers = append(s.servers, server)
	}
	handshakes := newHandshakes(s.listener, s.tlsConfig(), s.opts.timeouts.header)
	s.running.Go(func() { handshakes.serve(s.servers[0], s.servers[1]) })
	s.running.Go(func() { s.resources.run(s.closing) })
	for _, run := range s.authn.controllers {
		s.running.Go(func() { run(s.closing) })
	}
	s.leave = registry.AddProxy("https://"+l.Addr().String(), inspected{s})
	return nil
}

// newServer returns an HTTP server for the listener.
func (s *Server) newServer(l *connections) (*http.Server, error) {
	wait := s.opts.timeouts
	server := &http.Server{
		Handler:           s,
		ConnState:         l.onStateChange,
		ConnContext:       l.connContext,
		ReadHeaderTimeout: wait.header,
		WriteTimeout:      unreadTime, // of what the server answers itself, such as 400
		IdleTimeout:       wait.idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: wait.ping, PingTimeout: wait.pong, WriteByteTimeout: writeStall,
			MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		},
		ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
	return server, followHTTP2(server)
}

// tlsConfig returns the configuration of the connections.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.cert.get,
		ClientAuth:     tls.RequestClientCert, // verified by the authenticators, which follow their CAs
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

// Run serves until ctx ends, then calls Shutdown with Options.ShutdownDelay. It returns nil if ctx
// ended it.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Shutdown(context.WithoutCancel(ctx), s.opts.ShutdownDelay)
}

// URL returns the server's address, for example https://127.0.0.1:8443; empty before Start.
func (s *Server) URL() string {
	if l := s.connections(); l != nil {
		return "https://" + l.Addr().String()
	}
	return ""
}

// connections returns the listener, or nil before Start.
func (s *Server) connections() *connections {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener
}

// connected returns the number of open connections.
func (s *Server) connected() int {
	if l := s.connections(); l != nil {
		return l.count()
	}
	return 0
}

// CAData returns the PEM certificates by which clients trust the server: the CA of a certificate
// that the proxy has made, or else what is in Options.CertFile.
func (s *Server) CAData() []byte { return s.cert.caData() }

// begin admits a request, unless the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inFlight.Add(1)
	s.unfinished.add(1)
	return true
}

// end ends a request that begin admitted.
func (s *Server) end() {
	s.unfinished.add(-1)
	s.inFlight.Done()
}

// Close ends every request, watches included, and waits for them. A second call does nothing.
// Shutdown ends the server more gently.
func (s *Server) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	servers, leave, probes := s.servers, s.leave, s.probes
	s.mu.Unlock()
	if already {
		return nil
	}
	if probes != nil {
		_ = probes.Close()
	}
	if leave != nil {
		leave()
	}
	s.close()
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, server := range slices.Backward(servers) {
		if server.Shutdown(ctx) != nil {
			err = errors.Join(err, server.Close())
		}
	}
	if len(servers) == 0 {
		for _, run := range s.authn.controllers {
			run(s.closing) // ends what New has started
		}
	}
	s.running.Wait()
	s.inFlight.Wait()
	s.workers.Close()
	s.rechecker.close()
	s.upstream.close()
	utilnet.CloseIdleConnectionsFor(s.ownTransport)
	return errors.Join(err, s.auditor.Close())
}
