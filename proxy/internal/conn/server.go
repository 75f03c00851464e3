// Package conn accepts the connections of the proxy's clients, and bounds what each of them costs
// before its caller is authenticated: connections, TLS handshakes, request heads, HTTP/2 streams
// and unread responses. The package has no code for callers or Kubernetes: the proxy reports to it
// that the credential of a request was accepted, or is under review.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server serves HTTP over TLS on a bounded Listener. It has two HTTP servers: the second serves the
// connections that are accepted while the first shuts down. Server does the TLS handshake of each
// connection before it passes the connection to an HTTP server. Otherwise net/http would do the
// handshake in the goroutine that serves the connection, and the stack of that goroutine would
// remain twice as large. One goroutine accepts, and each handshake in progress has one goroutine,
// so the bound on connections also bounds these goroutines. Serve returns after all of them have
// ended.
type Server struct {
	*Listener
	first, second *http.Server
	config        *tls.Config
	timeout       time.Duration // of one handshake
	done          chan net.Conn // connections after their handshake, even if it has failed
}

// Config configures a Server.
type Config struct {
	Handler     http.Handler
	Certificate *Certificate
	Heads       Heads
	// Limit bounds the open connections. PerSource bounds the open connections of one source address;
	// 0: no bound.
	Limit, PerSource int
	// Header bounds the time for a TLS handshake, and the time to receive the head of a request. Idle
	// bounds the time until the next request.
	Header, Idle time.Duration
	// Ping is how long an HTTP/2 client may be silent before it gets a PING, and Pong how long it may
	// take to answer.
	Ping, Pong time.Duration
	Log        *slog.Logger
}

const (
	// maxHeader bounds the head of a request, in bytes. It leaves room for a query of the largest
	// size, a token, and the groups of a front proxy's user. It is not larger because many connections
	// may send such a head before their callers are known.
	maxHeader = 256 << 10
	// maxStreams bounds the concurrent streams of an HTTP/2 connection.
	maxStreams = 250
	// frameSize and the two windows bound how much client data an HTTP/2 connection buffers. They are
	// much smaller than the defaults, because bodies are small and there are many connections.
	frameSize        = 16 << 10
	streamWindow     = 64 << 10
	connectionWindow = 256 << 10
	// WriteStall is how long a write to a client may block before the connection or the stream is
	// closed.
	WriteStall = 5 * time.Minute
	// acceptRetry is the time between two attempts to accept while too many files are open.
	acceptRetry = 100 * time.Millisecond
)

// Listen listens on a TCP address.
func Listen(address string, c *Config) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := newServer(NewListener(l, c.Limit, c.PerSource, c.Heads), &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: c.Certificate.get,
		ClientAuth:     tls.RequestClientCert, // the authenticators verify it and reload their CAs
		NextProtos:     []string{"h2", "http/1.1"},
	}, c.Header)
	for _, server := range []*http.Server{s.first, s.second} {
		server.Handler = c.Handler
		s.Bind(server)
		server.ReadHeaderTimeout = c.Header
		server.WriteTimeout = UnreadTime // for answers of the HTTP server itself, such as 400
		server.IdleTimeout = c.Idle
		server.MaxHeaderBytes = maxHeader
		server.HTTP2 = &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: c.Ping, PingTimeout: c.Pong, WriteByteTimeout: WriteStall,
			MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		}
		server.ErrorLog = slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)
		if err := followHTTP2(server); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return s, nil
}

func newServer(cs *Listener, config *tls.Config, timeout time.Duration) *Server {
	return &Server{Listener: cs, first: &http.Server{}, second: &http.Server{}, config: config, timeout: timeout, done: make(chan net.Conn)}
}

// Serve serves connections with the first server until it is shut down or closed, and then with the
// second. It returns when the second is shut down or closed, too.
func (s *Server) Serve() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.accept(ctx, &running) })
	for _, server := range []*http.Server{s.first, s.second} {
		open, stop := context.WithCancel(ctx)
		// The error is http.ErrServerClosed after Shutdown or Close.
		_ = server.Serve(&handshakeListener{Server: s, ctx: open, stop: stop})
	}
	_ = s.Listener.Close()
	cancel()
	running.Wait()
}

// Retire shuts the first server down, which asks its clients to use another connection. New
// connections go to the second server. Retire blocks until the connections of the first server have
// ended or ctx ends.
func (s *Server) Retire(ctx context.Context) error { return s.first.Shutdown(ctx) }

// Shutdown shuts the second server down too, so that Serve returns. It blocks until the connections
// of the second server have ended or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.second.Shutdown(ctx) }

// End shuts both servers down. When ctx ends, it closes the connections that still have requests.
func (s *Server) End(ctx context.Context) (err error) {
	for _, server := range []*http.Server{s.second, s.first} {
		if server.Shutdown(ctx) != nil {
			err = errors.Join(err, server.Close())
		}
	}
	return err
}

// accept accepts connections until the listener is closed.
func (s *Server) accept(ctx context.Context, running *sync.WaitGroup) {
	for ctx.Err() == nil {
		conn, err := s.Accept()
		// There are too many open files: retry, as net/http does.
		if ne, ok := err.(interface{ Temporary() bool }); ok && ne.Temporary() {
			select {
			case <-time.After(acceptRetry):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return
		}
		running.Go(func() { s.handshake(ctx, tls.Server(conn, s.config)) })
	}
}

// handshake does the handshake of one connection, and passes the connection to the current HTTP
// server even if the handshake fails. net/http calls Handshake again, gets the same error, and
// answers it as usual.
func (s *Server) handshake(ctx context.Context, conn *tls.Conn) {
	_ = conn.SetDeadline(time.Now().Add(s.timeout))
	var done net.Conn = conn
	if conn.HandshakeContext(ctx) == nil {
		_ = conn.SetDeadline(time.Time{})
		done = wrapSecure(conn)
	}
	select {
	case s.done <- done:
	case <-ctx.Done():
		_ = conn.NetConn().Close()
	}
}

// handshakeListener is the listener of one of the HTTP servers. Its Close makes Accept return and
// leaves further connections to the next server.
type handshakeListener struct {
	*Server
	ctx  context.Context
	stop context.CancelFunc
}

// Accept returns a connection after its handshake.
func (l *handshakeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.done:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *handshakeListener) Close() error {
	l.stop()
	return nil
}
