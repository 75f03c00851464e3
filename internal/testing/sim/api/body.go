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

// body is the body of an answer. Its plan decides how the bytes arrive.
type body struct {
	ctx     context.Context // ends when the body is closed, with io.ErrClosedPipe
	cancel  context.CancelCauseFunc
	cluster *Cluster
	plan    *plan

	data    []byte
	source  source // produces more data; may be nil
	at      int    // the number of bytes read
	began   time.Duration
	heard   time.Duration // when a read last returned bytes
	stalled bool
	whole   func() // called once, after all of data was read; may be nil
	ended   func() // called at the close or the end, perhaps twice; may be nil
}

// source produces the data of a body on demand, while a client reads it.
type source interface {
	// next puts the next bytes into b.data. If it has none, it returns a channel that receives when
	// more may be available, and a time after which more may be available without a signal; 0 means no
	// such time. The error io.EOF ends the body.
	next(b *body) (changed <-chan struct{}, d time.Duration, err error)
}

// body returns the body of the answer to the request, which starts with data.
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
		b.ended() // also called by Close
	}
	return n, err
}

// read reads bytes that have arrived. If none have, it waits until some may have, and returns 0 and
// nil.
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

// fill gets more data from the source. If the source has none, fill blocks until it may have some,
// and returns nil.
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

// gate returns how many more bytes the plan lets pass, at least 1. If the plan has ended the body,
// it returns an error instead. During a stall it blocks.
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

// endsIn returns the time until a front end ends the body, and the error of that end. The error is
// nil if no front end ends the body.
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

// over returns the error with which a front end has ended the body, or nil.
func (b *body) over() error {
	if d, err := b.endsIn(); d == 0 {
		return err
	}
	return nil
}

// wait blocks until changed receives, d has passed, or a front end ends the body. A d of 0 means no
// time limit. It returns an error if the body is closed or its request's context ends first.
func (b *body) wait(changed <-chan struct{}, d time.Duration) error {
	if left, err := b.endsIn(); err != nil && (d == 0 || left < d) {
		d = max(left, 1)
	}
	return await(b.ctx, changed, d)
}

// await blocks until changed receives or d has passed. A d of 0 means no time limit. It returns an
// error if ctx ends first.
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

// writers is a pool, because a gzip writer uses most of a megabyte.
var writers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	return w
}}

// compress returns data as one gzip member. The body of a WATCH is a sequence of members.
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
