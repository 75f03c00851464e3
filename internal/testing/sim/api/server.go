package api

import (
	"time"
)

// Spec describes how a server differs from a current kube-apiserver. The zero value describes a
// server without differences.
type Spec struct {
	// Lag is the time between a commit and its arrival in the server's cache. A consistent LIST waits
	// for the cache.
	Lag time.Duration
	// Stale makes the server serve even LISTs without a resourceVersion from its cache, as a caching
	// proxy does.
	Stale bool
	// Old makes the server ignore sendInitialEvents and resourceVersionMatch, and report version 1.18.
	Old bool
	// Plain makes the server support only JSON.
	Plain bool
	// Gzip makes the server compress the responses to LISTs, and to WATCHes with initial events, for
	// clients that accept gzip.
	Gzip bool
	// Order decides the order of the keys in JSON lists, events and objects.
	Order int
	// Bookmarks is the time between two bookmarks of a watch. 0 means a minute; a negative value means
	// no bookmarks.
	Bookmarks time.Duration
	// Window is the number of the newest revisions from which a watch can resume. 0 means all
	// revisions since the server's start.
	Window int64
}

// Server is one API server. The cluster's mu guards its fields.
type Server struct {
	Spec
	Index int

	cluster     *Cluster
	era         *Era
	seen        int64 // the newest revision in its cache
	window      int64 // the oldest revision from which a watch may start
	incarnation int
}

// advance updates the cache with the commits that must have arrived by now.
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

// next returns the time until the cache receives the next commit. It returns false if the cache has
// received all commits.
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

// oldest returns the oldest revision from which a watch may resume.
func (s *Server) oldest() int64 { return max(s.window, s.era.Compacted()) }

func (s *Server) version() (major, minor string) {
	if s.Old {
		return "1", "18"
	}
	return "1", "37"
}
