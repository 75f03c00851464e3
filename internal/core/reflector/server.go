package reflector

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Server holds what the reflectors of one server share.
//
//   - How many times it went back in time. When one of them finds that out, all others list again,
//     each once. Their own watches may show nothing of it, where the server has reached their
//     versions again.
//   - The places for their lists, see Config.MaxLists.
//
// The zero value is ready to use. A nil Server is valid; its reflector knows only what it finds out
// itself. A Server is safe for concurrent use.
type Server struct {
	lists listQueue

	mu       sync.Mutex
	restores uint64 // found so far
	// watching are those to tell of the next restore, as many as watches are open. Each leaves when
	// its watch ends.
	watching map[*probe]struct{}
}

// listSpacing bounds the burst of lists after a restore. If n reflectors learn of it at the same
// time, they spread their lists at random over n times as long, after the usual wait.
const listSpacing = 50 * time.Millisecond

// enterList blocks until the list of a reflector may begin. stalled says that its list before gave
// its place away, see listQueue.
func (s *Server) enterList(ctx context.Context, maxLists int, stalled bool) (*listPlace, error) {
	if s == nil {
		return nil, nil
	}
	return s.lists.enter(ctx, maxLists, stalled)
}

// found returns how many times the server is known to have gone back.
func (s *Server) found() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

// wentBack counts that the server went back, and tells all probes that have joined. It does neither
// if a restore was found after seen. It returns how many times the server went back.
func (s *Server) wentBack(seen uint64) uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	if s.restores > seen {
		defer s.mu.Unlock()
		return s.restores
	}
	s.restores++
	restores, probes := s.restores, slices.Collect(maps.Keys(s.watching))
	s.mu.Unlock()
	for _, p := range probes {
		p.outdated(time.Duration(len(probes)) * listSpacing)
	}
	return restores
}

// join registers p, until it leaves: outdated is called when the server goes back, and immediately
// if that was found after seen.
func (s *Server) join(p *probe, seen uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.watching == nil {
		s.watching = map[*probe]struct{}{}
	}
	s.watching[p] = struct{}{}
	already := s.restores > seen
	s.mu.Unlock()
	if already {
		p.outdated(0)
	}
}

// leave removes p. p may still be told once, shortly after.
func (s *Server) leave(p *probe) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watching, p)
}
