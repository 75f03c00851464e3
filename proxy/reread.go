package proxy

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/request"
)

// maxRereadWaiters bounds the requests that wait for one resource at a time. Each has a seat.
const maxRereadWaiters = 100

// rereadQueue has the requests that wait for a resource that is being reread. The zero value is
// empty. It is safe for concurrent use.
type rereadQueue struct {
	mu      sync.Mutex
	waiting int
	done    chan struct{} // closed when the resource is followed; nil: no request waits
}

// join returns a channel that is closed when the resource is followed, or nil if too many wait
// already. Otherwise the caller calls leave when it waits no longer.
func (q *rereadQueue) join() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == maxRereadWaiters {
		return nil
	}
	q.waiting++
	if q.done == nil {
		q.done = make(chan struct{})
	}
	return q.done
}

func (q *rereadQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
}

// release unblocks all waiting requests.
func (q *rereadQueue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.done != nil {
		close(q.done)
		q.done = nil
	}
}

// awaitReread blocks until the resource is cached and followed, if the read would otherwise get 429
// because the resource is being reread, or needs a proof from a session that is about to watch the
// upstream. It gives up after timeouts.reread, when ctx ends, or immediately if too many wait.
func (res *resource) awaitReread(ctx context.Context, rq *request.Request, prove bool) {
	if !res.isReread(rq, prove) {
		return
	}
	followed := res.rereaders.join()
	if followed == nil {
		return
	}
	defer res.rereaders.leave()
	// This is checked once more after joining: it may have been released meanwhile.
	if !res.isReread(rq, prove) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, res.resources.opts.timeouts.reread)
	defer cancel()
	select {
	case <-followed:
	case <-ctx.Done():
	}
}

// isReread reports whether it is worth waiting for the resource to be cached and followed.
func (res *resource) isReread(rq *request.Request, prove bool) bool {
	sess := res.ready.Load()
	if sess == nil {
		return apierrors.IsTooManyRequests(res.lost(nil, rq))
	}
	return prove && !sess.follows.Load() && sess.Reflector().Status().Err == nil
}
