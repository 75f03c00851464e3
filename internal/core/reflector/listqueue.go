package reflector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A list that has received nothing for listStall loses its place in the queue: a server that hangs
// for some resources must not delay the lists of others. Each list that loses its place halves the
// time for which the next ones may stall, down to minListStall. If a list receives something after
// it lost its place, it was only slow: the next ones may then stall for twice as long as that list
// might. After a list hung, the next list of the same reflector waits behind all others, and may
// stall for minListStall. So a hundred lists that hang at the start delay others by half a minute,
// and later ones by a second.
const (
	listStall    = 10 * time.Second
	minListStall = time.Second
)

// listQueue bounds how many lists of one server are under way, initial events included: each uses a
// connection, and memory for data in transit. They start in the order of the calls of enter, but
// lists that are expected to hang start after all others. The zero value is ready to use. It is
// safe for concurrent use.
type listQueue struct {
	mu      sync.Mutex
	held    int
	waiting []*listPlace  // at most one for each reflector of the server; each removes itself
	stall   time.Duration // how long the next list may stall; 0: listStall
}

// listPlace is the place of a list that waits or is under way. A nil listPlace is the place of a
// list that no queue bounds.
type listPlace struct {
	queue    *listQueue
	maxLists int           // at the same time, this one included
	stalled  bool          // the reflector's previous list lost its place and received nothing
	free     chan struct{} // closed when the list may begin
	moved    atomic.Bool   // something was received since the last check

	// The queue's lock guards the fields below.
	look  *time.Timer // checks whether the list has stalled, until it leaves; nil: it waits
	stall time.Duration
	left  bool
}

// enter blocks until fewer than maxLists lists are under way. stalled is the result of the caller's
// last leave. The error is the cause of ctx. After enter has returned a place, the caller must call
// leave.
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

// admit starts waiting lists while there is room for the next one. The caller holds the lock.
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

// leaveIfStalled gives the place to the next list if this list has received nothing since the last
// call. Otherwise it schedules the next check.
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

// leave gives the place to the next list, or ends the wait for a place. It reports whether the list
// lost its place and has received nothing since. Further calls do nothing.
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

// patience returns how long the next list may stall.
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
