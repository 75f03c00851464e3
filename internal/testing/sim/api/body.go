package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math"
	"sync"
	"time"
)

// body is the body of a response. The plan of the request, which contains its faults, decides how
// the bytes arrive.
type body struct {
	ctx     context.Context // ends with io.ErrClosedPipe when the body is closed
	cancel  context.CancelCauseFunc
	cluster *Cluster
	plan    *plan

	data    []byte
	source  source // produces further data; may be nil
	at      int    // the number of bytes that were read
	began   time.Duration
	heard   time.Duration // when Read last returned bytes
	stalled bool
	whole   func() // called once, when all of data has been read; may be nil
	ended   func() // called when the body ends or is closed, up to twice; may be nil
}

// source produces the data of a body while a client reads it.
type source interface {
	// next puts the next bytes into b.data. If it has none, it returns a channel and a time d: more
	// bytes may be available when the channel (changed) receives a value, or after d if d is not 0.
	// The error io.EOF ends the body.
	next(b *body) (changed <-chan struct{}, d time.Duration, err error)
}

// body returns the body of the response to r. It starts with data.
func (r *request) body(data []byte) *body {
	c := r.client.cluster
	now := c.Now()
	ctx, cancel := context.WithCancelCause(r.Context())
	return &body{ctx: ctx, cancel: cancel, cluster: c, plan: r.plan, data: data, began: now, heard: now}
}

func (b *body) Close() error {
	b.cancel(io.ErrClosedPipe)
	if b.ended != nil {
		b.ended()
	}
	return nil
}

func (b *body) Read(p []byte) (n int, err error) {
	for len(p) > 0 && n == 0 && err == nil {
		n, err = b.read(p)
	}
	if err != nil && b.ended != nil {
		b.ended() // Close calls it too
	}
	return n, err
}

// read reads bytes that have arrived. If there are none, it waits until some may have arrived, and
// returns 0 and nil.
func (b *body) read(p []byte) (int, error) {
	b.cluster.Yield()
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.gate()
	if err != nil {
		return 0, err
	}
	if len(b.data) == 0 {
		return 0, b.fill()
	}
	n = copy(p[:min(n, len(p))], b.data)
	b.data = b.data[n:]
	b.at += n
	b.heard = b.cluster.Now()
	if len(b.data) == 0 && b.whole != nil {
		b.whole()
		b.whole = nil
	}
	return n, nil
}

// fill requests more data from the source. If the source has none, fill blocks until it may have
// some, and returns nil.
func (b *body) fill() error {
	if b.source == nil {
		return io.EOF
	}
	changed, d, err := b.source.next(b)
	if err != nil || len(b.data) > 0 {
		return err
	}
	return b.wait(changed, d)
}

// gate returns how many further bytes the plan allows, at least 1. If the plan has ended the body,
// gate returns an error. During a Stall it blocks.
func (b *body) gate() (int, error) {
	if err := b.over(); err != nil {
		return 0, err
	}
	n := math.MaxInt
	if b.plan.has(Pieces) {
		n = b.plan[Pieces].N
	}
	if stall := b.plan[Stall]; b.plan.has(Stall) && !b.stalled {
		if b.at < stall.N {
			n = min(n, stall.N-b.at)
		} else {
			b.stalled = true
			if err := b.wait(nil, stall.D); err != nil {
				return 0, err
			}
			if err := b.over(); err != nil {
				return 0, err
			}
		}
	}
	if cut := b.plan[Cut].N - b.at; b.plan.has(Cut) {
		if n = min(n, cut); n <= 0 {
			return 0, errBroken
		}
	}
	if end := b.plan[End].N - b.at; b.plan.has(End) {
		if n = min(n, end); n <= 0 {
			return 0, io.EOF
		}
	}
	return n, nil
}

// endsIn returns the time until a front end (a proxy in front of the servers) ends the body, and
// the error with which the body then ends. err is nil if no front end does that.
func (b *body) endsIn() (d time.Duration, err error) {
	end := func(e Effect, since time.Duration) {
		left := max(since+b.plan[e].D-b.cluster.Now(), 0)
		if !b.plan.has(e) || err != nil && left >= d {
			return
		}
		if d, err = left, io.EOF; b.plan[e].N == 1 {
			err = errBroken
		}
	}
	end(EndAged, b.began)
	end(EndIdle, b.heard)
	return d, err
}

// over returns the error with which a front end has ended the body, or nil if none has.
func (b *body) over() error {
	if d, err := b.endsIn(); d == 0 {
		return err
	}
	return nil
}

// wait blocks until the channel changed receives a value, d has passed, or a front end ends the
// body. If d is 0, it has no time limit. It returns an error if the body is closed or the request's
// context ends first.
func (b *body) wait(changed <-chan struct{}, d time.Duration) error {
	if left, err := b.endsIn(); err != nil && (d == 0 || left < d) {
		d = max(left, 1)
	}
	return await(b.ctx, changed, d)
}

// await blocks until the channel changed receives a value, or d has passed. If d is 0, it has no
// time limit. It returns an error if ctx ends first.
func await(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-changed:
	case <-timer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// writers is a pool, because each gzip writer uses most of a megabyte.
var writers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	return w
}}

// compress returns data as one gzip member. A WATCH sends several members one after another.
func compress(data []byte) []byte {
	var b bytes.Buffer
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(data); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
