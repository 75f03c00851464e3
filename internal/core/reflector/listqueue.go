package reflector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A list that has brought nothing for listStall gives its place away: a server that hangs for some
// resources must not keep the lists of others waiting. With each that does so the next ones may
// stall for half as long, down to minListStall. One that brings something after all was slow: the
// next ones may stall for twice as long as it might. A list whose reflector has had one that hung
// waits behind all others, and may stall for minListStall. So at the start a hundred lists that
// hang keep others waiting for half a minute, and from then on for a second.
const (
	listStall    = 10 * time.Second
	minListStall = time.Second
)

// listQueue bounds how many lists of one server are under way, initial events included: each takes
// a connection, and memory for what is on its way. They begin in the order in which they were asked
// for, those that are expected to hang after all others. The zero value is ready to use. It is safe
// for concurrent use.
type listQueue struct {
	mu      sync.Mutex
	held    int
	waiting []*listPlace  // one for each reflector of the server at most; each leaves by itself
	stall   time.Duration // that the next list may take; 0: listStall
}

// listPlace is what a list holds while it is under way. A nil listPlace is that of a list that
// nothing bounds.
type listPlace struct {
	queue    *listQueue
	maxLists int           // at a time, this one included
	stalled  bool          // the reflector's list before brought nothing until it gave its place away
	free     chan struct{} // closed when the list may begin
	moved    atomic.Bool   // something came since the last look

	// The queue's lock guards the rest.
	look  *time.Timer // looks whether the list has stalled, until it leaves; nil: it waits
	stall time.Duration
	left  bool
}

// enter blocks until fewer than maxLists lists are under way. stalled is what the caller's leave
// has returned last. The error is the cause of ctx. The caller must leave.
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

// admit lets lists begin as long as there is room for the next one. The caller holds the lock.
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

// moves notes that the list has brought something.
func (p *listPlace) moves() {
	if p != nil && !p.moved.Load() {
		p.moved.Store(true)
	}
}

// leaveIfStalled hands the place to the next list if nothing has come since it was called last. If
// something has come, it is called again later.
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

// leave hands the place to the next list, or ends the wait for a place. It reports whether the list
// gave its place away and has brought nothing since. Further calls do nothing.
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

// patience is how long the next list may stall.
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
