package reflector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A server may hang for one resource. The lists of other resources should not wait long for that.
// So a list that has received nothing for a limited time loses its place in the queue. The limit is
// listStall at the start. After each loss, the limit of the lists that start next is halved, down
// to minListStall. If the list that lost its place receives something later, the server is only
// slow. Then the limit of the lists that start next rises to twice the limit of that list, up to
// listStall. If that list receives nothing until its end, the next list of the same reflector is
// expected to hang. It waits behind all others, and loses its place after minListStall. So a
// hundred lists that hang at the start delay other lists by half a minute, and later by a second.
const (
	listStall    = 10 * time.Second
	minListStall = time.Second
)

// listQueue limits how many lists of one server run at the same time, because each list uses a
// connection, and memory for data in transit. A WATCH counts as a list until its initial events are
// complete. Lists start in the order of the calls of enter, but lists that are expected to hang
// start after all others. The zero value is ready to use. It is safe for concurrent use.
type listQueue struct {
	mu      sync.Mutex
	held    int
	waiting []*listPlace  // at most one for each reflector of the server; leave removes it
	stall   time.Duration // how long the next list may receive nothing; 0 means listStall
}

// listPlace is the place of one list in the queue: it waits or runs. A nil listPlace belongs to a
// list that no queue limits.
type listPlace struct {
	queue    *listQueue
	maxLists int           // at the same time, including this one
	stalled  bool          // the reflector's previous list lost its place and received nothing
	free     chan struct{} // closed when the list may start
	moved    atomic.Bool   // something was received since the last call of leaveIfStalled

	// queue.mu guards the fields below.
	look  *time.Timer // calls leaveIfStalled while the list runs; nil while it waits
	stall time.Duration
	left  bool
}

// enter blocks until fewer than maxLists lists run. stalled is the result of the caller's last call
// of leave. If ctx ends first, the error is the cause of ctx. After enter has returned a place, the
// caller must call leave.
func (q *listQueue) enter(ctx context.Context, maxLists int, stalled bool) (*listPlace, error) {
	p := &listPlace{queue: q, maxLists: maxLists, stalled: stalled, free: make(chan struct{})}
	q.mu.Lock()
	at := len(q.waiting)
	for !stalled && at > 0 && q.waiting[at-1].stalled {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, p)
	q.admit()
	q.mu.Unlock()
	select {
	case <-p.free:
		return p, nil
	case <-ctx.Done():
		p.leave()
		return nil, context.Cause(ctx)
	}
}

// admit starts waiting lists, in their order, while fewer than maxLists run. The caller must hold
// q.mu.
func (q *listQueue) admit() {
	for len(q.waiting) > 0 && q.held < q.waiting[0].maxLists {
		p := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.held++
		if p.stall = q.patience(); p.stalled {
			p.stall = minListStall
		}
		p.look = time.AfterFunc(p.stall, p.leaveIfStalled)
		close(p.free)
	}
}

// moves records that the list has received something.
func (p *listPlace) moves() {
	if p != nil && !p.moved.Load() {
		p.moved.Store(true)
	}
}

// leaveIfStalled releases the place, so that the next list may start, if the list has received
// nothing since leaveIfStalled was last called. Otherwise it schedules its next call.
func (p *listPlace) leaveIfStalled() {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	switch {
	case p.left:
	case p.moved.Swap(false):
		p.look.Reset(p.stall)
	default:
		if !p.stalled {
			p.queue.stall = max(p.queue.patience()/2, minListStall)
		}
		p.leaveLocked()
	}
}

// leave releases the place, so that the next list may start, or removes the waiting list. It
// returns true if the list had already lost its place, and received nothing after that. Call it
// only once for each place.
func (p *listPlace) leave() (stalled bool) {
	if p == nil {
		return false
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	switch {
	case !p.left:
		p.leaveLocked()
		return false
	case p.moved.Swap(false):
		p.queue.stall = max(p.queue.patience(), min(2*p.stall, listStall))
		return false
	}
	return true
}

// patience returns how long the next list may receive nothing.
func (q *listQueue) patience() time.Duration { return cmp.Or(q.stall, listStall) }

func (p *listPlace) leaveLocked() {
	q := p.queue
	p.left = true
	if p.look != nil {
		p.look.Stop()
		q.held--
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(o *listPlace) bool { return o == p })
	}
	q.admit()
}
