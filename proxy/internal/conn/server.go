// Package conn accepts the connections of the proxy's clients, and bounds what each of them costs
// before a caller is known: connections, TLS handshakes, heads of requests, streams of HTTP/2 and
// responses that are not read. It knows neither callers nor Kubernetes: the proxy reports for each
// request that its credential was accepted, or is under review.
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

// Server serves HTTP over TLS on a bounded listener. It has two HTTP servers: the second one serves
// the connections that are accepted while the first one shuts down. It does the TLS handshake of
// each connection before an HTTP server gets it. Otherwise net/http does it in the goroutine that
// serves the connection, which then keeps twice the stack as long as it lives. There
// is one goroutine that accepts, and one for each handshake in progress, which are bounded as
// connections are; Serve ends them.
type Server struct {
	*Listener
	first, second *http.Server
	config        *tls.Config
	timeout       time.Duration // of one handshake
	done          chan net.Conn // connections after the handshake, whether it failed or not
}

// Config configures a Server.
type Config struct {
	Handler     http.Handler
	Certificate *Certificate
	Heads       Heads
	// Limit bounds the open connections, and PerSource those of one address; 0: no bound.
	Limit, PerSource int
	// Header bounds the time for a TLS handshake and for the head of a request, and Idle that until
	// the next request.
	Header, Idle time.Duration
	// Ping is the silence after which an HTTP/2 client is pinged, and Pong how long it may take to
	// answer.
	Ping, Pong time.Duration
	Log        *slog.Logger
}

const (
	// maxHeader bounds the head of a request, in bytes: a query of the largest size, a token, and the
	// groups of a front proxy's user. Each of many connections may have sent one before its caller is
	// known.
	maxHeader = 256 << 10
	// maxStreams bounds the concurrent streams of an HTTP/2 connection.
	maxStreams = 250
	// frameSize and the two windows bound what an HTTP/2 connection buffers of its client's data.
	// They are much smaller than the defaults, because bodies are small and connections many.
	frameSize        = 16 << 10
	streamWindow     = 64 << 10
	connectionWindow = 256 << 10
	// WriteStall is how long a write to a client may block before its connection or stream is closed.
	WriteStall = 5 * time.Minute
	// acceptRetry is the time between two attempts to accept while the system has no more files.
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
		ClientAuth:     tls.RequestClientCert, // verified by the authenticators, which follow their CAs
		NextProtos:     []string{"h2", "http/1.1"},
	}, c.Header)
	for _, server := range []*http.Server{s.first, s.second} {
		server.Handler = c.Handler
		s.Bind(server)
		server.ReadHeaderTimeout = c.Header
		server.WriteTimeout = UnreadTime // of what the server answers itself, such as 400
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

// Serve serves connections by the first server, and by the second once the first is shut down or
// closed. It returns when the second is, too.
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

// Retire shuts the first server down: its clients are asked to use another connection. New
// connections go to the second one.
func (s *Server) Retire(ctx context.Context) error { return s.first.Shutdown(ctx) }

// Shutdown shuts the second server down too, so that Serve returns.
func (s *Server) Shutdown(ctx context.Context) error { return s.second.Shutdown(ctx) }

// End shuts both servers down, and closes the connections with requests that last beyond ctx.
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
		// As net/http does: there are too many open files.
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

// handshake does one handshake, and hands the connection to the current server. net/http gets the
// same result as soon as it asks for it, and so answers errors as it always does.
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

// handshakeListener is the listener of one HTTP server. Its Close ends Accept and leaves the
// connections to the next server.
type handshakeListener struct {
	*Server
	ctx  context.Context
	stop context.CancelFunc
}

// Accept returns a connection whose handshake is over.
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
