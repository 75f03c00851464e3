package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/proxy/internal/audit"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// Server is a caching proxy. It is also an [http.Handler], but only its own listener accepts client
// certificates. Its methods are safe for concurrent use.
type Server struct {
	opts         Options
	authn        *review.Authenticator
	authz        *review.Authorizer
	upstream     *upstream
	mirror       *mirror.Mirror
	seats        *seats.Seats
	writing      atomic.Int64 // number of writes in progress to clients of forwarded watches
	heads        conn.Heads
	health       health
	cert         *conn.Certificate
	auditor      *audit.Recorder
	ownTransport http.RoundTripper // for the proxy's own requests

	registry      *prometheus.Registry
	metrics       *requestMetrics
	served        *prometheus.CounterVec
	revoked       atomic.Uint64
	rechecker     *review.Rechecker
	servedWatches servedWatches

	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup              // goroutines of Start
	clients  atomic.Pointer[conn.Server] // nil until Start
	mu       sync.Mutex
	probes   *http.Server // serves Options.HealthListen; nil: it is not set
	closed   bool
	leave    func()         // removes the server from the page of package debug; nil until Start
	inFlight sync.WaitGroup // calls of ServeHTTP; not incremented after closed is set

	shutdownPhase    atomic.Int32 // a shutdownPhase
	unfinished       atomic.Int64 // requests that a shutdown waits for
	forwardedWatches forwardedWatches
	forwardedFor     [forReasons]atomic.Uint64 // by mirror.Reason
}

// ErrClosed is returned by the methods of a closed server.
var ErrClosed = errors.New("proxy: closed")

// closeTimeout is how long Close waits for requests before it closes their connections.
const closeTimeout = 3 * time.Second

// New returns a proxy that does not listen or cache anything until Start. New reads the upstream's
// CAs; ctx bounds these requests. The caller must Close the proxy, even if Start is never called.
// New returns ErrInvalidOptions for invalid options. Otherwise its error says which certificate
// cannot be read or written, or that the upstream cannot be reached.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Upstream == nil {
		return nil, fmt.Errorf("%w: no upstream", ErrInvalidOptions)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	cfg := source.CopyConfig(o.Upstream)
	cfg.QPS = -1 // no limit: callers and caches bound the requests
	br := &review.Breaker{}
	ownConfig := rest.CopyConfig(cfg)
	ownConfig.Wrap(br.Wrap)
	ownClient, err := rest.HTTPClientFor(ownConfig)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	client, err := kubernetes.NewForConfigAndClient(ownConfig, ownClient)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	s := &Server{opts: o, ownTransport: ownClient.Transport, heads: conn.NewHeads()}
	s.seats = seats.New(&seats.Config{
		Reads: o.MaxRequests, Writes: o.MaxMutating, Wait: o.timeouts.seat, ReviewWait: o.timeouts.review, StartWait: o.timeouts.start,
		Watches: o.MaxLongRunning, WatchesPerUser: o.MaxWatchesPerUser, WatchMemory: o.WatchMemory, ResponseMemory: o.ResponseMemory,
		Connections: func() int64 { return int64(s.connected()) * conn.ConnectionBytes }, Kept: s.keptForWatches,
	})
	s.closing, s.close = context.WithCancel(context.Background())
	s.health.client, s.health.reviews = client.Discovery().RESTClient(), client.AuthorizationV1().SubjectAccessReviews()
	br.Probe = s.health.reachedSince
	s.mirror = s.newMirror(cfg, client.Discovery().RESTClient())
	if s.upstream, err = newUpstream(cfg, &o); err != nil {
		return nil, err
	}
	s.upstream.refuse = s.refuse
	if o.CertFile != "" {
		s.cert, err = conn.ReadCertificate(o.CertFile, o.KeyFile)
	} else {
		s.cert, err = conn.SelfSigned(o.CertDir, o.Listen, o.Hosts, o.Log)
	}
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	reviews := &review.Config{
		Trust: review.Trust(o.Authentication), OutageGrace: o.OutageGrace, Timeout: o.timeouts.review, Lookup: o.timeouts.lookup,
		Client: client, Breaker: br, Seats: s.seats.Reviews, Log: o.Log,
	}
	if s.authn, err = review.NewAuthenticator(ctx, reviews); err != nil {
		if errors.Is(err, review.ErrFile) {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
		}
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if s.authz, err = review.NewAuthorizer(reviews); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	s.upstream.isFrontProxyHeader = s.authn.NamesCallerUpstream
	s.upstream.onAccepted, s.upstream.onMissed, s.upstream.onDenied = s.onAccepted, s.learnOwner, s.authn.ForgetOwner
	s.rechecker = review.NewRechecker(o.Recheck, o.RecheckMax, o.OutageGrace, s.authn, s.authz)
	if s.auditor, err = audit.New(audit.Config(o.Audit)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	s.registerMetrics()
	return s, nil
}

// newMirror returns the mirror, the part of the proxy that caches resources. It caches nothing
// before Start.
func (s *Server) newMirror(upstream *rest.Config, client rest.Interface) *mirror.Mirror {
	o := &s.opts
	named, _ := parseResources(o.Resources) // Validate has returned the errors
	trusted, _ := parseResources(o.TrustCache)
	return mirror.New(mirror.Config{
		Upstream: upstream, Client: client, Review: o.timeouts.review, Log: o.Log, Resources: named, TrustCache: trusted,
		MemoryBudget: o.MemoryBudget, ForwardConsistent: o.ForwardConsistent, MaxStaleness: o.MaxStaleness, ExpireSlowWatches: o.ExpireSlowWatches,
		LogBytes: o.LogBytes, FlushInterval: o.FlushInterval, BookmarkInterval: o.BookmarkInterval, MinWatch: o.MinWatch, Timeouts: o.timeouts.Timeouts,
		OnWentBack: s.forwardedWatches.endAll, WatchExcess: s.seats.Watches.MemoryExcess,
	})
}

// Start listens, starts to cache resources, and returns. A second call does nothing and returns
// nil. Start returns ErrClosed after Close.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.clients.Load() != nil {
		return nil
	}
	wait := s.opts.timeouts
	clients, err := conn.Listen(s.opts.Listen, &conn.Config{
		Handler: s, Certificate: s.cert, Heads: s.heads, Limit: s.opts.MaxConnections, PerSource: s.opts.MaxConnectionsPerSource,
		Header: wait.header, Idle: wait.idle, Ping: wait.ping, Pong: wait.pong, Log: s.opts.Log,
	})
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if err := s.auditor.Start(); err != nil {
		return errors.Join(fmt.Errorf("proxy: %w", err), clients.Close())
	}
	if err := s.startProbes(); err != nil {
		return errors.Join(err, clients.Close())
	}
	s.clients.Store(clients)
	s.running.Go(clients.Serve)
	s.running.Go(func() { s.mirror.Run(s.closing) })
	s.running.Go(func() { s.authn.Run(s.closing) })
	s.leave = registry.AddProxy("https://"+clients.Addr().String(), inspected{s})
	return nil
}

// Run starts the server, serves until ctx ends, and then calls Shutdown with Options.ShutdownDelay.
// It returns the error of Start or Shutdown; the end of ctx alone is no error.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Shutdown(context.WithoutCancel(ctx), s.opts.ShutdownDelay)
}

// URL returns the server's address, for example https://127.0.0.1:8443, or the empty string before
// Start.
func (s *Server) URL() string {
	if c := s.clients.Load(); c != nil {
		return "https://" + c.Addr().String()
	}
	return ""
}

// connected returns the number of open client connections.
func (s *Server) connected() int {
	if c := s.clients.Load(); c != nil {
		return c.Count()
	}
	return 0
}

// keptForWatches returns the number of bytes that are buffered for slow clients of watches. They
// include readAhead bytes for each write in progress to a client of a forwarded watch, because the
// transport may have read them ahead.
func (s *Server) keptForWatches() int64 { return s.mirror.Kept.Load() + s.writing.Load()*readAhead }

// CAData returns the PEM certificates that clients need to trust the server. They are the CA of the
// certificate that the proxy generated, or the content of Options.CertFile if that is set.
func (s *Server) CAData() []byte { return s.cert.CAData() }

// begin counts a request as in progress and returns true. It returns false if the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inFlight.Add(1)
	s.unfinished.Add(1)
	return true
}

// end must be called when a request for which begin returned true has ended.
func (s *Server) end() {
	s.unfinished.Add(-1)
	s.inFlight.Done()
}

// Close ends every request, watches included, and waits for the handlers to return. A second call
// does nothing. Shutdown ends the server without breaking requests off.
func (s *Server) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	clients, leave, probes := s.clients.Load(), s.leave, s.probes
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
	if clients != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = clients.End(ctx)
	} else {
		s.authn.Run(s.closing) // Run stops what New has started
	}
	s.running.Wait()
	s.inFlight.Wait()
	s.rechecker.Close()
	s.upstream.close()
	utilnet.CloseIdleConnectionsFor(s.ownTransport)
	return errors.Join(err, s.auditor.Close())
}

// shutdownPhase is the progress of a shutdown.
type shutdownPhase int32

const (
	phaseRunning   shutdownPhase = iota
	phaseUnready                 // /readyz fails; all requests are served
	phaseGoingAway               // each response asks its client to use another connection
)

const (
	// finishTimeout is how long requests may continue after the delay of a shutdown, as in
	// kube-apiserver. finishPoll is the time between two checks whether they have ended.
	finishTimeout = time.Minute
	finishPoll    = 10 * time.Millisecond
)

// Shutdown ends the server gradually, so that its clients lose nothing and continue at another
// replica. At the end it calls Close, and returns the error of Close. During the delay, the server
// continues to serve:
//
//	from the start      /readyz fails, so that load balancers send no more requests; the proxy proves that watched resources are current
//	a quarter           responses ask clients to use another connection (Connection: close, which HTTP/2 sends as GOAWAY)
//	a half              GOAWAY for all HTTP/2 connections; idle connections are closed
//	from five eighths   watches end, each at a random time, after a final bookmark if the client requested bookmarks
//
// After the delay, the server accepts no more connections. It waits up to a minute for the requests
// in progress, except logs and upgraded connections. The wait also ends with ctx, Close or a second
// Shutdown.
func (s *Server) Shutdown(ctx context.Context, delay time.Duration) error {
	begun := time.Now()
	return s.shutDown(ctx, max(delay, 0), func(ctx context.Context, eighths time.Duration) {
		select {
		case <-time.After(time.Until(begun.Add(delay * eighths / 8))):
		case <-ctx.Done():
		}
	})
}

// shutDown implements Shutdown. It calls the given function (until) several times. Each call must
// block until the given number of eighths of the delay has passed, or until ctx has ended.
func (s *Server) shutDown(ctx context.Context, delay time.Duration, until func(ctx context.Context, eighths time.Duration)) error {
	clients := s.clients.Load()
	if clients == nil || !s.shutdownPhase.CompareAndSwap(int32(phaseRunning), int32(phaseUnready)) {
		return s.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(s.closing, cancel)()
	var ending sync.WaitGroup
	begun := time.Now()
	s.opts.Log.Info("shutting down", "delay", delay)

	ending.Go(func() { s.mirror.CatchUp(ctx) })
	until(ctx, 2)
	s.shutdownPhase.Store(int32(phaseGoingAway))
	until(ctx, 4)
	// An error means that ctx has ended. It is ignored, here and below, because Close ends the rest.
	ending.Go(func() { _ = clients.Retire(ctx) })
	until(ctx, 5)
	left := time.Until(begun.Add(delay))
	s.mirror.Drain(left)
	s.forwardedWatches.drain(left)
	until(ctx, 8)
	ending.Go(func() { _ = clients.Shutdown(ctx) })
	// An error may also mean that requests take too long.
	_ = wait.PollUntilContextTimeout(ctx, finishPoll, finishTimeout, true, func(context.Context) (bool, error) {
		return s.unfinished.Load() == 0, nil
	})
	cancel()
	ending.Wait()
	return s.Close()
}

// sendsGoaway reports whether the response must ask the client to use another connection. It must
// while the server shuts down. To an HTTP/2 client, a response must also do so with probability
// GoawayChance. Open streams continue.
func (s *Server) sendsGoaway(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	return s.shutdownPhase.Load() >= int32(phaseGoingAway) || r.ProtoMajor == 2 && s.opts.GoawayChance > 0 && rand.Float64() < s.opts.GoawayChance
}
