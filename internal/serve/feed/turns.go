package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// turns sends one request at a time to the upstream while callers wait. A turn is one such request:
// all callers that wait when it starts share it. One goroutine sends the requests, and ends when no
// caller waits for the next turn. close ends it, too. turns is safe for concurrent use.
type turns struct {
	ctx     context.Context // its end makes request fail
	request func(*turn)
	pace    *rate.Limiter // limits the rate of the requests

	running sync.WaitGroup

	mu     sync.Mutex
	next   *turn // the turn that starts next; nil: no caller waits for one
	active bool  // the goroutine runs
	closed bool
}

// turn is one request.
type turn struct {
	over    context.Context // ends when the request has ended
	end     context.CancelFunc
	callers int // number of callers that wait; the lock of turns guards it

	// These fields are the result of a query for the upstream's newest resourceVersion. Other
	// goroutines may read them after the context over has ended.
	sent   time.Time
	before uint64 // the feed's version when the query was sent
	rv     uint64
	err    error
}

const (
	// turnInterval is the mean time between two turns. turnBurst is the number of turns that may start
	// without a pause. It is above 1, because a reader that starts shortly after another one needs a
	// separate query. The same short WATCH can prove both queries.
	turnInterval = time.Second
	turnBurst    = 2
)

var errNotAsked = errors.New("the upstream did not report its newest resourceVersion in time")

func newTurns(ctx context.Context, request func(*turn)) *turns {
	return &turns{ctx: ctx, request: request, pace: rate.NewLimiter(rate.Every(turnInterval), turnBurst)}
}

// join returns the next turn, which starts after the call. After close, it returns a turn that is
// over with an error. The caller must call leave when it stops waiting.
func (ts *turns) join() *turn {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.next == nil {
		ts.next = &turn{err: errNotAsked}
		ts.next.over, ts.next.end = context.WithCancel(context.Background())
	}
	t := ts.next
	t.callers++
	if ts.closed {
		t.end()
	} else if !ts.active {
		ts.active = true
		ts.running.Go(ts.run)
	}
	return t
}

// leave says that a caller of join does not wait any more. A turn without callers does not start.
// Otherwise a client that requests a resourceVersion that the upstream never reaches would cause
// requests without end.
func (ts *turns) leave(t *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.callers--; t.callers == 0 && ts.next == t {
		t.end()
		ts.next = nil
	}
}

// run makes turns while callers wait.
func (ts *turns) run() {
	for ts.wanted() {
		_ = ts.pace.Wait(ts.ctx) // if ctx has ended, the request fails
		if t := ts.start(); t != nil {
			ts.request(t)
			t.end()
		}
	}
}

// wanted reports whether a caller waits for the next turn. If not, the goroutine must end.
func (ts *turns) wanted() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.active = ts.next != nil
	return ts.active
}

// start returns the next turn, or nil if no caller waits for it any more.
func (ts *turns) start() (t *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ts.next = ts.next, nil
	return t
}

// close waits for the goroutine, whose ctx must have ended. It may be called several times.
func (ts *turns) close() {
	ts.mu.Lock()
	ts.closed = true
	ts.mu.Unlock()
	ts.running.Wait()
}
