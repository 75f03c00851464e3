package api

import (
	"time"
)

// Spec says how a server differs from a current kube-apiserver. The zero value is one.
type Spec struct {
	// Lag is how long after a commit the server's cache sees it. A consistent LIST waits for that.
	Lag time.Duration
	// Stale answers LISTs without a resourceVersion from the cache as well, as a caching proxy
	// does.
	Stale bool
	// Old knows nothing of sendInitialEvents and resourceVersionMatch, and says that it is 1.18.
	Old bool
	// Plain speaks JSON only.
	Plain bool
	// Gzip compresses LISTs, and WATCHes with initial events, for those that accept it.
	Gzip bool
	// Order is the order in which keys of JSON documents are written: lists, events and objects.
	Order int
	// Bookmarks is how often a watch gets one; 0 is a minute, negative never.
	Bookmarks time.Duration
	// Window is how many revisions can be resumed from; 0 is all since the start.
	Window int64
}

// Server is one API server. Its fields are guarded by the cluster's lock.
type Server struct {
	Spec
	Index int

	cluster     *Cluster
	era         *Era
	seen        int64 // the newest revision in its cache
	window      int64 // the oldest that a watch may begin at
	incarnation int
}

// advance brings the cache up to what it should have seen by now.
func (s *Server) advance() {
	if s.Lag <= 0 {
		s.seen = s.era.Head()
	} else {
		s.seen = max(s.seen, s.era.RevisionAt(s.cluster.Now()-s.Lag))
	}
	if s.Window > 0 {
		s.window = max(s.window, s.seen-s.Window)
	}
}

// next returns in how much time the cache will see more than now. It returns false if nothing more
// was committed.
func (s *Server) next() (time.Duration, bool) {
	if s.seen >= s.era.Head() {
		return 0, false
	}
	return s.era.Change(max(s.seen, s.era.Base)+1).At + s.Lag - s.cluster.Now(), true
}

func (s *Server) restart() {
	s.era = s.cluster.history.Era()
	s.seen = s.era.Head()
	s.window = s.seen
	s.incarnation++
}

// oldest returns the oldest revision that a watch may go on from.
func (s *Server) oldest() int64 { return max(s.window, s.era.Compacted()) }

func (s *Server) version() (major, minor string) {
	if s.Old {
		return "1", "18"
	}
	return "1", "37"
}
