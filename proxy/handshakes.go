package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// handshakes does the TLS handshake of each connection before the HTTP server gets it. Otherwise
// net/http does it in the goroutine that serves the connection, which then keeps twice the stack as
// long as it lives. There is one goroutine that accepts, and one for each handshake in progress,
// which are bounded as connections are; serve ends them.
type handshakes struct {
	connections *connections
	config      *tls.Config
	timeout     time.Duration // of one handshake
	done        chan net.Conn // whatever came of the handshake
}

func newHandshakes(cs *connections, config *tls.Config, timeout time.Duration) *handshakes {
	return &handshakes{connections: cs, config: config, timeout: timeout, done: make(chan net.Conn)}
}

// serve serves connections by the first server, and by the second once the first is shut down or
// closed. It returns when the second is, too.
func (hs *handshakes) serve(first, second *http.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { hs.accept(ctx, &running) })
	_ = first.Serve(hs.listener()) // always an error; http.ErrServerClosed after Shutdown or Close
	_ = second.Serve(hs.listener())
	_ = hs.connections.Close()
	cancel()
	running.Wait()
}

// accept accepts connections until the listener is closed.
func (hs *handshakes) accept(ctx context.Context, running *sync.WaitGroup) {
	for ctx.Err() == nil {
		conn, err := hs.connections.Accept()
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
		running.Go(func() { hs.handshake(ctx, tls.Server(conn, hs.config)) })
	}
}

// acceptRetry is the time between two attempts to accept while the system has no more files.
const acceptRetry = 100 * time.Millisecond

// handshake does one handshake, and hands the connection to the current server. net/http gets the
// same result as soon as it asks for it, and so answers errors as it always does.
func (hs *handshakes) handshake(ctx context.Context, conn *tls.Conn) {
	_ = conn.SetDeadline(time.Now().Add(hs.timeout))
	var done net.Conn = conn
	if conn.HandshakeContext(ctx) == nil {
		_ = conn.SetDeadline(time.Time{})
		done = wrapSecure(conn)
	}
	select {
	case hs.done <- done:
	case <-ctx.Done():
		_ = conn.NetConn().Close()
	}
}

// listener returns a listener for one server.
func (hs *handshakes) listener() net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &handshakeListener{handshakes: hs, ctx: ctx, close: cancel}
}

// handshakeListener is the listener of one server. Close ends its Accept and leaves the connections
// to the next server.
type handshakeListener struct {
	*handshakes
	ctx   context.Context
	close context.CancelFunc
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

func (l *handshakeListener) Addr() net.Addr { return l.connections.Addr() }

func (l *handshakeListener) Close() error {
	l.close()
	return nil
}
