package reflector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A list that has brought nothing for listStall gives its place away: a server that hangs for some
// resources must not keep the lists of others waiting. One that takes the place of such a list may
// stall for half as long, down to minListStall, until a list has ended that brought something. So a
// hundred lists that hang keep another one waiting for half a minute, once.
const (
	listStall    = 10 * time.Second
	minListStall = time.Second
)

// listQueue bounds how many lists of one server are under way, initial events included: each takes
// a connection, and memory for what is on its way. They begin in the order in which they were asked
// for. The zero value is ready to use. It is safe for concurrent use.
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
	free     chan struct{} // closed when the list may begin
	moved    atomic.Bool   // something came since the last look
	came     atomic.Bool   // something came

	// The queue's lock guards the rest.
	look  *time.Timer // looks whether the list has stalled, until it leaves; nil: it waits
	stall time.Duration
	left  bool
}

// enter blocks until fewer than maxLists lists are under way. The error is the cause of ctx. The
// caller must leave.
func (q *listQueue) enter(ctx context.Context, maxLists int) (*listPlace, error) {
	p := &listPlace{queue: q, maxLists: maxLists, free: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
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

// admit lets lists begin as long as there is room for the next one. The lock is held.
func (q *listQueue) admit() {
	for len(q.waiting) > 0 && q.held < q.waiting[0].maxLists {
		p := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.held++
		if p.stall = q.stall; p.stall == 0 {
			p.stall = listStall
		}
		p.look = time.AfterFunc(p.stall, p.leaveIfStalled)
		close(p.free)
	}
}

// moves notes that the list has brought something.
func (p *listPlace) moves() {
	if p != nil && !p.moved.Load() {
		p.moved.Store(true)
		p.came.Store(true)
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
		p.queue.stall = max(p.stall/2, minListStall)
		p.leaveLocked()
	}
}

// leave hands the place to the next list, or ends the wait for a place. Further calls do nothing.
func (p *listPlace) leave() {
	if p == nil {
		return
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if p.left {
		return
	}
	if p.came.Load() {
		p.queue.stall = 0
	}
	p.leaveLocked()
}

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
