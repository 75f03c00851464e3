package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
)

// ListWatch configures how an informer lists and watches. The zero value suits any server: the
// informer chooses by the server's version.
type ListWatch struct {
	// Mode selects the requests for the first state, and for the state after a watch that cannot be
	// resumed.
	Mode Mode
	// Consistency selects how current that state must be.
	Consistency Consistency
	// PageSize is the number of objects per page in ModePages. The default is 500.
	PageSize int64
	// WatchTimeout is the shortest timeout that a WATCH asks for. The longest is twice that. The
	// informer draws it at random, so that the watches of a restarted server do not end at the same
	// time. Servers count in whole seconds, so it is at least one. The default is 5 minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline is how long the server may send no initial event in ModeWatchList before they
	// are complete. After that, Err is ErrNoBookmark and the informer sends a LIST instead. The
	// default is 20 s.
	BookmarkDeadline time.Duration
	// MaxLists limits how many LISTs, and WATCHes with initial events, one server may be answering
	// when one of this informer's starts, including that one. Further ones wait. All informers of a
	// factory count together; without a factory, the informer's own namespaces and selectors do. A
	// LIST that receives nothing for 10 s no longer counts. The default is 8.
	MaxLists int
	// Backoff sets how long to wait before a retry.
	Backoff Backoff
}

// Mode selects how an informer gets the server's state.
type Mode uint8

const (
	// ModeAuto selects ModeList for servers that stream their LISTs (Kubernetes 1.33 on) and
	// ModePages for older ones. It is the zero value.
	ModeAuto Mode = iota
	// ModeList selects one LIST without a limit. If it breaks off twice, the informer lists in pages.
	ModeList
	// ModePages selects LISTs of PageSize objects. An older server answers each without holding all
	// objects in memory.
	ModePages
	// ModeWatchList selects a WATCH with initial events (KEP-3157), or ModeList if the server does not
	// support them.
	ModeWatchList
)

// String returns the mode's name: "Auto", "List", "Pages" or "WatchList".
func (m Mode) String() string { return reflector.Mode(m).String() }

// Consistency selects how current the first state must be.
type Consistency uint8

const (
	// ConsistencyMostRecent requests the state at the time when the server receives the request
	// (resourceVersion unset). Since 1.31, servers answer it from their cache. It is the zero value.
	ConsistencyMostRecent Consistency = iota
	// ConsistencyAny accepts the state in the server's cache (resourceVersion "0", or not older than
	// the informer's state). It costs an older server less and may be some seconds old. After a "too
	// old" error, and after a server went back in time, the informer requests the most recent state
	// regardless.
	ConsistencyAny
)

// String returns the consistency's name: "MostRecent" or "Any".
func (c Consistency) String() string { return reflector.Consistency(c).String() }

// Backoff sets how long to wait before a retry: Min after the first failure, then twice as long
// each time up to Max, each wait shortened at random by up to a half. A wait is no shorter than the
// server's Retry-After, up to 2 minutes. While no server answers, or one rejects requests within a
// second, the waits do not exceed twice Min for the first 22 failures, because it may recover soon.
type Backoff struct {
	Min time.Duration // the default is 0.8 s
	Max time.Duration // the default is 30 s
	// Denied limits the waits after an answer that an administrator may correct: missing credentials,
	// permissions or resources. It does not limit the waits before a list of thousands of objects that
	// replaces a refused watch. For a resource that was served before, the limit is Min. The default
	// is 5 s.
	Denied time.Duration
	// Healthy is how long watches must run without a failure before earlier failures are forgotten.
	// The default is 10 s.
	Healthy time.Duration
	// Random returns numbers in [0, 1). Several goroutines call it at the same time. The default is
	// math/rand/v2.
	Random func() float64
}

// config returns the reflector's configuration.
func (o ListWatch) config() reflector.Config {
	return reflector.Config{
		Mode: reflector.Mode(o.Mode), Consistency: reflector.Consistency(o.Consistency), PageSize: o.PageSize, WatchTimeout: o.WatchTimeout,
		BookmarkDeadline: o.BookmarkDeadline, MaxLists: o.MaxLists, Backoff: reflector.Backoff(o.Backoff),
	}
}

// ServerGroup groups the informers of one API server. Set Options.Server of each of them to a
// pointer to the same ServerGroup; a factory does so for its own. When one of the informers detects
// that the server was restored from a backup, all of them list again. They share the limit
// ListWatch.MaxLists.
//
// A ServerGroup has no fields or methods for users. The zero value is ready to use. It must not be
// copied. It is safe for concurrent use, and does not keep informers alive.
type ServerGroup reflector.Server
