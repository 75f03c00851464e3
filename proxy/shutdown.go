package proxy

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// shutdownPhase is the progress of a shutdown.
type shutdownPhase int32

const (
	phaseRunning   shutdownPhase = iota
	phaseUnready                 // /readyz fails; all requests are served
	phaseGoingAway               // each response asks its client to use another connection
)

const (
	// finishTimeout is how long requests may continue after the delay of a shutdown, as in
	// kube-apiserver. finishPoll is the time between two checks whether they have ended.
	finishTimeout = time.Minute
	finishPoll    = 10 * time.Millisecond
)

// Shutdown ends the server gradually, so that its clients lose nothing and continue at another
// replica. At the end it calls Close, and returns the error of Close. During the delay, the server
// continues to serve:
//
//	from the start      /readyz fails, so that load balancers send no more requests; the proxy proves that watched resources are current
//	a quarter           responses ask clients to use another connection (Connection: close, which HTTP/2 sends as GOAWAY)
//	a half              GOAWAY for all HTTP/2 connections; idle connections are closed
//	from five eighths   watches end, each at a random time, after a final bookmark if the client requested bookmarks
//
// After the delay, the server accepts no more connections. It waits up to a minute for the requests
// in progress, except logs and upgraded connections. The wait also ends with ctx, Close or a second
// Shutdown.
func (s *Server) Shutdown(ctx context.Context, delay time.Duration) error {
	begun := time.Now()
	return s.shutDown(ctx, max(delay, 0), func(ctx context.Context, eighths time.Duration) {
		select {
		case <-time.After(time.Until(begun.Add(delay * eighths / 8))):
		case <-ctx.Done():
		}
	})
}

// shutDown implements Shutdown. It calls the given function (until) several times. Each call must
// block until the given number of eighths of the delay has passed, or until ctx has ended.
func (s *Server) shutDown(ctx context.Context, delay time.Duration, until func(ctx context.Context, eighths time.Duration)) error {
	clients := s.clients.Load()
	if clients == nil || !s.shutdownPhase.CompareAndSwap(int32(phaseRunning), int32(phaseUnready)) {
		return s.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(s.closing, cancel)()
	var ending sync.WaitGroup
	begun := time.Now()
	s.opts.Log.Info("shutting down", "delay", delay)

	ending.Go(func() { s.mirror.CatchUp(ctx) })
	until(ctx, 2)
	s.shutdownPhase.Store(int32(phaseGoingAway))
	until(ctx, 4)
	// An error means that ctx has ended. It is ignored, here and below, because Close ends the rest.
	ending.Go(func() { _ = clients.Retire(ctx) })
	until(ctx, 5)
	left := time.Until(begun.Add(delay))
	s.mirror.Drain(left)
	s.forwardedWatches.drain(left)
	until(ctx, 8)
	ending.Go(func() { _ = clients.Shutdown(ctx) })
	// An error may also mean that requests take too long.
	_ = wait.PollUntilContextTimeout(ctx, finishPoll, finishTimeout, true, func(context.Context) (bool, error) {
		return s.unfinished.Load() == 0, nil
	})
	cancel()
	ending.Wait()
	return s.Close()
}

// sendsGoaway reports whether the response must ask the client to use another connection. It must
// while the server shuts down. To an HTTP/2 client, a response must also do so with probability
// GoawayChance. Open streams continue.
func (s *Server) sendsGoaway(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	return s.shutdownPhase.Load() >= int32(phaseGoingAway) || r.ProtoMajor == 2 && s.opts.GoawayChance > 0 && rand.Float64() < s.opts.GoawayChance
}
