package informertest

import (
	"context"
	"net"
	"sync"
	"syscall"

	"github.com/weirproject/weir/internal/testing/testenv"
)

// pipes is an in-memory network with one host, the server, which can be down. It does not limit the
// number of connections, because the number of dials in a story is limited.
type pipes struct {
	*testenv.Listener

	mu    sync.Mutex
	down  bool
	dials int
	open  map[*pipeConn]struct{} // the server's ends of the connections
}

func newPipes() *pipes {
	return &pipes{Listener: testenv.Listen(), open: map[*pipeConn]struct{}{}}
}

var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}

// Dial opens a connection to the server, or returns errRefused while the server is down.
func (p *pipes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	p.dials++
	down := p.down
	p.mu.Unlock()
	if down {
		return nil, errRefused
	}
	return p.Listener.Dial(ctx, network, address)
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &pipeConn{conn, p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = struct{}{}
	if p.down {
		conn.Close()
	}
	return c, nil
}

func (p *pipes) dialed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// setDown(true) breaks all connections and refuses new ones until setDown(false).
func (p *pipes) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down = down; down {
		for c := range p.open {
			c.Conn.Close()
		}
	}
}

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
