package reflector

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Server is what the reflectors of one server know of it together: how many times it went back in
// time. When one of them finds that out, all others list again, each once: their own watches may
// show nothing of it, where the server has come to their versions again. The zero value is ready to
// use; one with nil knows only what it finds out itself. Safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	restores uint64              // found so far
	watching map[*probe]struct{} // those to tell of the next one: as many as watches are open, each of which leaves when it ends
}

// listSpacing bounds the burst of lists after a restore: n reflectors that are told at once spread
// their lists, at random, over n times as long, besides what each waits anyway.
const listSpacing = 50 * time.Millisecond

// found returns how many times the server went back.
func (s *Server) found() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

// wentBack notes that the server went back, unless that has been found since seen, and tells those
// that watch. It returns how many times the server went back.
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
	restores, tell := s.restores, slices.Collect(maps.Keys(s.watching))
	s.mu.Unlock()
	for _, p := range tell {
		p.outdated(time.Duration(len(tell)) * listSpacing)
	}
	return restores
}

// join has p told when the server goes back, at once if that was found since seen, until it leaves.
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

// leave ends what join began. p may still be told shortly after.
func (s *Server) leave(p *probe) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watching, p)
}
