package proxy

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// stage is how far the server is on its way to its end.
type stage int32

const (
	stageRunning   stage = iota
	stageUnready         // /readyz fails, and everything is served
	stageGoingAway       // each answer asks its client to go on by another connection
)

// finishTimeout is what requests get to finish once the delay of a shutdown is over. kube-apiserver
// gives any request as long.
const finishTimeout = time.Minute

// Shutdown ends the server so that its clients lose nothing, and go on at another replica; then it
// is Close. For that delay the server goes on serving:
//
//	from the start      /readyz fails, so that load balancers send nobody any more; what is watched is proven to be current
//	a quarter           answers ask clients to use another connection (Connection: close, which HTTP/2 sends as GOAWAY)
//	a half              GOAWAY for all HTTP/2 connections; idle connections are closed
//	from five eighths   watches end, each at a random moment, after a bookmark of all that they have told where they were asked for bookmarks
//
// Then it accepts no connection any more, and waits for the requests that are under way, logs and
// upgraded connections apart, for a minute at most. ctx ends the waiting, and so do Close and a
// second Shutdown.
func (s *Server) Shutdown(ctx context.Context, delay time.Duration) error {
	s.mu.Lock()
	servers := s.servers
	s.mu.Unlock()
	if len(servers) == 0 || !s.stage.CompareAndSwap(int32(stageRunning), int32(stageUnready)) {
		return s.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(s.closing, cancel)()
	var ending sync.WaitGroup
	end := func(server *http.Server) {
		ending.Go(func() { _ = server.Shutdown(ctx) }) // an error: ctx has ended, and Close does the rest
	}
	begun := time.Now()
	delay = max(delay, 0)
	until := func(eighths time.Duration) { pause(ctx, time.Until(begun.Add(delay*eighths/8))) }
	s.opts.Log.Info("shutting down", "delay", delay)

	ending.Go(func() { s.catchUp(ctx) })
	until(2)
	s.stage.Store(int32(stageGoingAway))
	until(4)
	end(servers[0]) // connections that come from now on are the other server's
	until(5)
	left := time.Until(begun.Add(delay))
	s.resources.drain(left)
	s.forwardedWatches.drain(left)
	until(8)
	end(servers[1])
	s.unfinished.wait(ctx, finishTimeout)
	cancel()
	ending.Wait()
	return s.Close()
}

// catchUp has what is watched proven to be current, so that the last bookmarks of the watches are
// as new as can be: another replica, which may have started after the last change, then need not
// know of anything before it did.
func (s *Server) catchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, res := range s.resources.all() {
		if on := res.ready.Load(); on != nil && res.watchers.Load() > 0 {
			all.Go(func() { on.freshness.proveCurrent(ctx) })
		}
	}
	all.Wait()
}

// sendsGoaway reports whether the client is to send its next request by another connection: the
// server is about to end, or the client speaks HTTP/2 and it is its turn. Streams that are open on
// the connection go on.
func (s *Server) sendsGoaway(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	return s.stage.Load() >= int32(stageGoingAway) || r.ProtoMajor == 2 && s.opts.GoawayChance > 0 && rand.Float64() < s.opts.GoawayChance
}

// requestCounter counts requests that are under way. The zero value is none. Safe for concurrent
// use.
type requestCounter struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil: nobody waits for that
}

func (rc *requestCounter) add(n int) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.n += n; rc.n == 0 && rc.idle != nil {
		close(rc.idle)
		rc.idle = nil
	}
}

// wait waits until there are none, no longer than that, or until ctx ends.
func (rc *requestCounter) wait(ctx context.Context, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	rc.mu.Lock()
	if rc.n == 0 {
		rc.mu.Unlock()
		return
	}
	if rc.idle == nil {
		rc.idle = make(chan struct{})
	}
	none := rc.idle
	rc.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}
