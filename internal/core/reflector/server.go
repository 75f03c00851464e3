package reflector

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Server contains what the reflectors of one server share.
//
//   - How many times the server went back in time. When one reflector finds that out, all others
//     list again, each once. Their watches may not show it, if the server has reached their
//     versions again.
//   - The places for their lists, see Config.MaxLists.
//
// The zero value is ready to use. A nil Server is valid; a reflector without a Server finds only
// the restores that its own requests show. A Server is safe for concurrent use.
type Server struct {
	lists listQueue

	mu       sync.Mutex
	restores uint64 // the number of restores found
	// watching are the probes to notify of the next restore, one for each open watch. Each probe
	// leaves when its watch ends.
	watching map[*probe]struct{}
}

// listSpacing bounds the burst of lists after a restore. If n reflectors are notified of a restore
// at the same time, they wait as usual, and then spread their lists at random over n times
// listSpacing.
const listSpacing = 50 * time.Millisecond

// enterList blocks until the list of a reflector may start. stalled says that the reflector's
// previous list lost its place, see listQueue.
func (s *Server) enterList(ctx context.Context, maxLists int, stalled bool) (*listPlace, error) {
	if s == nil {
		return nil, nil
	}
	return s.lists.enter(ctx, maxLists, stalled)
}

// found returns how many times the server went back, as found by its reflectors.
func (s *Server) found() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

// wentBack counts one restore of the server, and notifies all probes that have joined. If a
// reflector has found a restore after seen, wentBack does neither. It returns how many times the
// server went back.
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

// join registers p until it leaves. Server calls p.outdated when the server goes back. If a restore
// was found after seen, join calls it immediately.
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

// leave removes p. A call of p.outdated may still be on its way and arrive shortly after.
func (s *Server) leave(p *probe) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watching, p)
}
