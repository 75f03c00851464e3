package api

import (
	"context"
	"io"
	"math"
	"sync"
	"time"
)

// body is the body of an answer. It arrives at once, or as a plan makes it arrive.
type body struct {
	ctx     context.Context
	cluster *Cluster
	plan    *plan
	closed  chan struct{}
	once    *sync.Once

	data    []byte
	at      int // how much was read
	began   time.Duration
	heard   time.Duration // when something was read last
	stalled bool
	whole   func() // called once data has been read to its end; may be nil
}

func newBody(ctx context.Context, c *Cluster, data []byte, p *plan) *body {
	now := c.Now()
	return &body{ctx: ctx, cluster: c, plan: p, closed: make(chan struct{}), once: new(sync.Once), data: data, began: now, heard: now}
}

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (b *body) Read(p []byte) (int, error) {
	b.cluster.Yield()
	if err := b.gone(); err != nil {
		return 0, err
	}
	n, err := b.gate()
	if err != nil {
		return 0, err
	}
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n = min(n, len(p), len(b.data))
	copy(p, b.data[:n])
	b.data = b.data[n:]
	b.passed(n)
	if len(b.data) == 0 && b.whole != nil {
		b.whole()
		b.whole = nil
	}
	return n, nil
}

// passed notes that n bytes were read.
func (b *body) passed(n int) {
	b.at += n
	b.heard = b.cluster.Now()
}

// gone returns why this body can no longer be read, or nil if it can.
func (b *body) gone() error {
	select {
	case <-b.closed:
		return io.ErrClosedPipe
	default:
		return b.ctx.Err()
	}
}

// gate returns how many bytes more the plan lets pass, which is at least one, or an error that says
// why there are none. At a stall it blocks until that is over, the body is closed or its context
// ends.
func (b *body) gate() (int, error) {
	n := math.MaxInt
	if b.plan.pieces > 0 {
		n = b.plan.pieces
	}
	if err := b.over(); err != nil {
		return 0, err
	}
	if stall := b.plan.stall; stall >= 0 && !b.stalled {
		if b.at >= stall {
			b.stalled = true
			if err := b.stand(b.plan.stallFor); err != nil {
				return 0, err
			}
			if err := b.over(); err != nil {
				return 0, err
			}
		} else {
			n = min(n, stall-b.at)
		}
	}
	if b.plan.cut >= 0 && b.at >= b.plan.cut {
		return 0, errBroken
	}
	if b.plan.end >= 0 && b.at >= b.plan.end {
		return 0, io.EOF
	}
	if b.plan.cut >= 0 {
		n = min(n, b.plan.cut-b.at)
	}
	if b.plan.end >= 0 {
		n = min(n, b.plan.end-b.at)
	}
	return n, nil
}

// stand blocks for d, for ever if d is 0, or until a front end ends the body. It returns an error
// if the body is closed or its context ends first.
func (b *body) stand(d time.Duration) error {
	timer, stop := b.timer(d)
	defer stop()
	select {
	case <-timer:
		return nil
	case <-b.closed:
		return io.ErrClosedPipe
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

// watchBody is the body of the answer to a WATCH.
type watchBody struct {
	body
	watch *watch
	ended func() // may be called again
}

func (b *watchBody) Close() error {
	b.ended()
	return b.body.Close()
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err != nil {
		b.ended() // whether or not it is closed as well
	}
	return n, err
}

func (b *watchBody) read(p []byte) (int, error) {
	for {
		if len(b.data) > 0 || b.watch.done {
			return b.body.Read(p)
		}
		b.cluster.Yield()
		if err := b.gone(); err != nil {
			return 0, err
		}
		if _, err := b.gate(); err != nil {
			return 0, err
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
}

// fill takes what the watch has to send. If that is nothing, fill blocks until there may be
// something, and returns nil. It returns an error if the server was restarted, the body is closed
// or its context ends.
func (b *watchBody) fill() error {
	c, w := b.cluster, b.watch
	c.mu.Lock()
	if w.incarnation != w.server.incarnation {
		c.mu.Unlock()
		return errBroken
	}
	d := w.fill()
	b.data, w.out = w.out, nil
	if w.req.gzip && len(b.data) > 0 {
		b.data = compress(b.data)
	}
	if w.stated && !w.done {
		w.stated = false
		era, schema := w.era.Index, w.schema
		b.whole = func() { c.complete(w.req, era, schema, 0) }
	}
	changed := c.changed
	c.mu.Unlock()
	if len(b.data) > 0 || w.done {
		return nil
	}
	timer, stop := b.timer(max(d, 1))
	defer stop()
	select {
	case <-changed:
	case <-timer:
	case <-b.closed:
		return io.ErrClosedPipe
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	return nil
}
