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

// maxRefusals is how many rechecks in a row may be refused by an upstream that can be reached. At the last of them the watch ends: so it goes
// on for no longer than that many times Options.Recheck without an answer about its caller.
const maxRefusals = 3

// serveWatch answers a WATCH, and ends it when its caller may no longer have it. v is what the permission to begin it is by.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, h *held, on *session, rd *read, v verdict) {
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
	if v == yes {
		check.confirmed = time.Now()
	}
	check.start()
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

	// Of run.
	confirmed time.Time // of the last yes; zero: the watch began without one
	doubted   bool      // a no came after the last yes
	refusals  int       // in a row, since the last yes
}

func (s *Server) newRecheck(r *http.Request, rd *read, end func()) *recheck {
	c := &recheck{server: s, r: r, rd: rd, end: end}
	c.ctx, c.cancel = context.WithCancel(r.Context())
	return c
}

// start begins to ask. It is called once, before stop.
func (c *recheck) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(c.server.pause(), c.run)
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
	v, asked := c.ask()
	if !asked {
		return // the watch has ended
	}
	if !c.keeps(v, time.Now()) {
		c.end()
		return
	}
	next := c.server.pause()
	if v == no {
		next = min(next, confirmAfter)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer.Reset(next)
	}
}

// keeps notes a verdict and reports whether the watch may go on by it. A no counts when a second one comes before a yes. Without an answer
// the watch goes on for Options.Grace after the last yes, or the caller's last yes that is remembered, if the upstream cannot be
// reached, and for maxRefusals if it can.
func (c *recheck) keeps(v verdict, now time.Time) bool {
	switch v {
	case yes:
		c.confirmed, c.doubted, c.refusals = now, false, 0
	case graced:
	case unreached:
		return now.Sub(c.confirmed) < c.server.opts.Grace
	case no:
		again := c.doubted
		c.doubted = true
		return !again
	default:
		c.refusals++
		return c.refusals < maxRefusals
	}
	return true
}

// ask asks whether the caller still may have the watch. It returns false if the watch has ended meanwhile.
func (c *recheck) ask() (v verdict, ok bool) {
	select {
	case c.server.rechecks <- struct{}{}:
		defer func() { <-c.server.rechecks }()
	case <-c.ctx.Done():
		return no, false
	}
	_, v = c.server.permits(c.r.WithContext(c.ctx), c.rd, true)
	return v, c.ctx.Err() == nil
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
