package informertest

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
)

// pipes is a network of one host: a listener whose connections are net.Pipes, which block durably
// in a synctest bubble. Its users' dials limit the number of connections. Close ends every
// connection.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}

	mu    sync.Mutex
	down  bool
	dials int
	open  map[*pipeConn]struct{}
	close sync.Once
}

func newPipes() *pipes {
	return &pipes{accept: make(chan net.Conn), closed: make(chan struct{}), open: map[*pipeConn]struct{}{}}
}

// errRefused is the error of a dial while the server is down.
var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}

// Dial connects a client.
func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	c := &pipeConn{Conn: server, pipes: p}
	p.mu.Lock()
	p.dials++
	if p.down {
		p.mu.Unlock()
		return nil, errRefused
	}
	p.open[c] = struct{}{}
	p.mu.Unlock()
	select {
	case p.accept <- c:
		return client, nil
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	case <-p.closed:
		c.Close()
		return nil, errRefused
	}
}

func (p *pipes) dialed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// setDown breaks all connections and refuses new ones, or accepts them again.
func (p *pipes) setDown(down bool) {
	p.mu.Lock()
	p.down = down
	var broken []*pipeConn
	if down {
		for c := range p.open {
			broken = append(broken, c)
		}
	}
	p.mu.Unlock()
	for _, c := range broken {
		c.Close()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener and breaks every connection.
func (p *pipes) Close() error {
	err := errors.New("closed already")
	p.close.Do(func() {
		close(p.closed)
		p.setDown(true)
		err = nil
	})
	return err
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// pipeConn is the server's end of a connection.
type pipeConn struct {
	net.Conn
	pipes *pipes
}

func (c *pipeConn) Close() error {
	c.pipes.mu.Lock()
	delete(c.pipes.open, c)
	c.pipes.mu.Unlock()
	return c.Conn.Close()
}
