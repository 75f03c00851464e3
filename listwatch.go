package weir

import (
	"time"

	"github.com/weirproject/weir/internal/reflector"
)

// ListWatch configures how an informer lists and watches. The zero value suits any server: it
// chooses by the server's version.
type ListWatch struct {
	// Mode selects the requests that get the first state, and the state after a watch that cannot
	// be resumed.
	Mode Mode
	// Consistency selects how current that state must be.
	Consistency Consistency
	// PageSize is the limit of each page under ModePages, in objects. 0: 500.
	PageSize int64
	// WatchTimeout is the shortest time after which the server is asked to end a WATCH. The longest
	// is twice that, drawn at random, so that the watches of a restarted server do not end
	// together. Servers count in whole seconds, so it is one at least. 0: 5 minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline is how long the server may send no initial event under ModeWatchList before
	// they are complete. After it Err is ErrNoBookmark, and the informer lists instead. 0: 20 s.
	BookmarkDeadline time.Duration
	// MaxLists is how many LISTs of one server may be under way when one of this informer begins,
	// itself included, and likewise WATCHes that send initial events. Those of all informers of a
	// factory count, else those of the informer's namespaces and selectors. The others wait. A LIST
	// that brings nothing for 10 s is not counted any more. 0: 8.
	MaxLists int
	// Backoff says how long to wait before a new try.
	Backoff Backoff
}

// Mode selects how an informer gets the state of the server.
type Mode uint8

const (
	// ModeAuto selects ModeList for servers that stream their LISTs (Kubernetes 1.33 on) and
	// ModePages for older ones. It is the zero value.
	ModeAuto Mode = iota
	// ModeList selects one LIST without a limit. If it breaks off twice, the informer asks in
	// pages.
	ModeList
	// ModePages selects LISTs of PageSize objects, which an older server answers without holding
	// all of them.
	ModePages
	// ModeWatchList selects a WATCH with initial events (KEP-3157), and ModeList for a server that
	// has none.
	ModeWatchList
)

// String returns the mode's name: "Auto", "List", "Pages" or "WatchList".
func (m Mode) String() string { return reflector.Mode(m).String() }

// Consistency selects how current a first state must be.
type Consistency uint8

const (
	// ConsistencyMostRecent asks for the state at the moment when the server gets the request
	// (resourceVersion unset). Servers answer it from their cache since 1.31. It is the zero value.
	ConsistencyMostRecent Consistency = iota
	// ConsistencyAny takes what the server has in its cache (resourceVersion "0", or not older than
	// what is held). It costs an older server less and may be some seconds old. After a "too old",
	// and once a server went back in time, lists are most recent all the same.
	ConsistencyAny
)

// String returns the consistency's name: "MostRecent" or "Any".
func (c Consistency) String() string { return reflector.Consistency(c).String() }

// Backoff says how long to wait before a new try: Min after the first failure, then twice as long
// each time up to Max, each wait shortened by up to a half at random. A wait is no shorter than the
// server's Retry-After, of which up to 2 minutes count. While no server answers, or one refuses
// within a second, the waits do not grow beyond twice Min for the first 22 failures: it may be back
// at any moment.
type Backoff struct {
	Min time.Duration // 0: 0.8 s
	Max time.Duration // 0: 30 s
	// Denied bounds the waits after an answer that somebody may put right at any moment: missing
	// credentials, permissions or resources. It does not bound those before a list of thousands of
	// objects that takes the place of a refused watch. For a resource that was served before the
	// bound is Min. 0: 5 s.
	Denied time.Duration
	// Healthy is how long watches must have stood, one after the other and without a failure in
	// between, for the failures before them to be forgotten. 0: 10 s.
	Healthy time.Duration
	// Random returns numbers in [0, 1). It is called by several goroutines at once. nil:
	// math/rand/v2.
	Random func() float64
}

// config returns what a reflector takes.
func (o ListWatch) config() reflector.Config {
	return reflector.ListWatch[Mode, Consistency, Backoff](o).Config()
}

// Server says which informers have the same API server. Set a pointer to one Server as
// Options.Server of each of them; a factory does so for its own. When one of the informers finds
// that the server was restored from a backup, all list again. They take turns to list, see
// ListWatch.MaxLists.
//
// A Server has no fields and no methods to use. The zero value is ready to use. A Server must not
// be copied. It is safe for concurrent use, and does not keep informers alive.
type Server reflector.Server
