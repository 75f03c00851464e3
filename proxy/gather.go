package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// gathering is a connection's writes while an answer is being made. HTTP/2 writes every frame on its own, and for an answer of 100 KB the
// system calls and the client's being woken by each cost more than everything else. So what is written meanwhile goes out in larger
// pieces: with the frame that comes behind the answer, when there are gatherBytes, or after gatherTime. Safe for concurrent use.
type gathering struct {
	conn net.Conn

	// answers is how many are being made. It has no lock: nobody who begins or ends one waits for a write that takes long.
	answers atomic.Int32

	mu    sync.Mutex
	buf   *[]byte     // nil: nothing waits
	timer *time.Timer // writes what waits when it ends; it is not stopped before, since to start it for each answer would cost more
	runs  bool        // the timer
	err   error       // of the timer's write
}

const (
	gatherBytes = 64 << 10
	gatherTime  = 5 * time.Millisecond
)

// gatherBuffers holds buffers of gatherBytes. A connection has one while something waits to be written.
var gatherBuffers = sync.Pool{New: func() any { b := make([]byte, 0, gatherBytes); return &b }}

// Write is net.Conn's, but may write later. An error of that is the next write's.
func (g *gathering) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	if g.buf == nil && g.answers.Load() == 0 {
		return g.conn.Write(p)
	}
	if g.buf != nil && len(*g.buf)+len(p) > gatherBytes {
		if err := g.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > gatherBytes {
		return g.conn.Write(p)
	}
	g.keep(p)
	if g.answers.Load() == 0 {
		if err := g.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// keep puts bytes into the buffer, in which there is room.
func (g *gathering) keep(p []byte) {
	if g.buf == nil {
		g.buf = gatherBuffers.Get().(*[]byte)
		g.start()
	}
	*g.buf = append(*g.buf, p...)
}

// start starts the timer, if it does not run.
func (g *gathering) start() {
	switch {
	case g.timer == nil:
		g.timer = time.AfterFunc(gatherTime, g.late)
	case !g.runs:
		g.timer.Reset(gatherTime)
	}
	g.runs = true
}

// flush writes what waits.
func (g *gathering) flush() error {
	buf := g.buf
	g.buf = nil
	_, g.err = g.conn.Write(*buf)
	*buf = (*buf)[:0]
	gatherBuffers.Put(buf)
	return g.err
}

// late writes what waits, be it for so long or less.
func (g *gathering) late() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs = false
	if g.buf != nil {
		_ = g.flush() // kept for the next write
	}
}

// gatherKey is where a request's context has its connection's gathering.
type gatherKey struct{}

// gather gathers the writes of a request's connection until it is released.
func gather(r *http.Request) (release func()) {
	g, ok := r.Context().Value(gatherKey{}).(*gathering)
	if !ok || r.ProtoMajor != 2 {
		return func() {}
	}
	g.answers.Add(1)
	return func() { g.answers.Add(-1) }
}

func (g *gathering) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, gatherKey{}, g)
}
