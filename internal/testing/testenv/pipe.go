package testenv

import (
	"context"
	"net"
	"sync"
)

// Listener is a net.Listener of connections from Dial, without a network: a synctest bubble waits
// for their messages.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// Listen returns a listener. It belongs to the caller's bubble, if any.
func Listen() *Listener {
	l := &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Open connections remain.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// Dial connects to the listener. It fits http.Transport's DialContext, and ignores the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
