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
//   - The number of times that the server went back in time. When one reflector finds that the
//     server went back, each other reflector lists once. A reflector cannot detect the restore
//     itself if the server has reached the reflector's version a second time.
//   - The queue of the reflectors' lists, see Config.MaxLists.
//
// The zero value is ready to use. A nil Server is valid; a reflector without a Server finds only
// the restores that its own requests show. A Server is safe for concurrent use.
type Server struct {
	lists listQueue

	mu       sync.Mutex
	restores uint64 // how many times a reflector has found that the server went back in time
	// watching contains the probes of all open watches, which the Server notifies of a restore. A
	// probe is removed when its watch ends.
	watching map[*probe]struct{}
}

// listSpacing limits the rate of lists after a restore. If n reflectors are notified of a restore
// at the same time, they wait as after a failure. Then they distribute their lists at random over n
// times listSpacing.
const listSpacing = 50 * time.Millisecond

// enterList blocks until the list of a reflector may start. stalled is the result of the
// reflector's last leave; see listQueue. For a nil Server it returns immediately.
func (s *Server) enterList(ctx context.Context, maxLists int, stalled bool) (*listPlace, error) {
	if s == nil {
		return nil, nil
	}
	return s.lists.enter(ctx, maxLists, stalled)
}

// found returns how many times the server's reflectors have found that it went back in time.
func (s *Server) found() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

// wentBack counts one restore of the server, and notifies all probes. If restores is higher than
// seen, another reflector has already counted this restore, so wentBack neither counts nor
// notifies. It returns the number of restores.
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

// join registers p, so that a restore of the server ends its watch. If a restore was found after
// seen, join ends the watch immediately.
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

// leave removes p. A concurrent wentBack may still call p.outdated shortly afterwards.
func (s *Server) leave(p *probe) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watching, p)
}
