package proxy

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// maxRechecks bounds how many callers of watches are asked about at once.
const maxRechecks = 16

// confirmAfter is when a no is asked about again, at the latest: an API server that has just started may not have loaded its rules.
const confirmAfter = 5 * time.Second

// lastWrite is what a write that is under way gets when its watch ends.
const lastWrite = time.Second

// serveWatch answers a WATCH, and ends it when its caller may no longer have it.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, h *held, on *session, rd *read) {
	h.watchers.Add(1)
	defer h.watchers.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	check := s.newRecheck(r, rd, func() {
		s.revoked.Add(1)
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWrite)) // a client that reads nothing
	})
	defer check.stop()
	defer cancel()
	on.serve(w, r.WithContext(ctx), rd)
}

// recheck asks about the caller of one watch now and then. Between two times it is a timer and no goroutine.
type recheck struct {
	server *Server
	ctx    context.Context
	r      *http.Request
	rd     *read
	end    func()

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup
	cancel  context.CancelFunc

	doubted bool // of run: the last answer was no
}

func (s *Server) newRecheck(r *http.Request, rd *read, end func()) *recheck {
	c := &recheck{server: s, r: r, rd: rd, end: end}
	c.ctx, c.cancel = context.WithCancel(r.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(s.pause(), c.run)
	return c
}

// pause is Options.Recheck, a little less each time so that watches that began together do not stay so.
func (s *Server) pause() time.Duration {
	return s.opts.Recheck - rand.N(s.opts.Recheck/8+1)
}

func (c *recheck) run() {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return
	}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	next := c.server.pause()
	switch holds := c.holds(); {
	case holds:
		c.doubted = false
	case c.doubted:
		c.end()
		return
	default:
		c.doubted, next = true, min(next, confirmAfter)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer.Reset(next)
	}
}

// holds says whether the caller still may have the watch. While nobody can be asked, it does: nothing new comes either.
func (c *recheck) holds() bool {
	select {
	case c.server.rechecks <- struct{}{}:
		defer func() { <-c.server.rechecks }()
	case <-c.ctx.Done():
		return true
	}
	r := c.r.WithContext(c.ctx)
	who, unsure := c.server.authn.caller(r)
	switch {
	case unsure || c.ctx.Err() != nil:
		return true
	case who == nil:
		return false
	}
	ok, unsure := c.server.authz.allows(c.ctx, who.user, c.rd.review)
	return ok || unsure || c.ctx.Err() != nil
}

// stop ends the asking, and waits for an answer that is under way.
func (c *recheck) stop() {
	c.mu.Lock()
	c.stopped = true
	c.timer.Stop()
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}
