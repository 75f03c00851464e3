package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
)

// ListWatch configures how an informer lists and watches. The zero value works with any server: the
// informer chooses the requests by the server's version.
type ListWatch struct {
	// Mode selects the requests that fetch the server's whole state: at the start, and after a watch
	// that cannot be resumed.
	Mode Mode
	// Consistency selects how current the fetched state must be.
	Consistency Consistency
	// PageSize is the number of objects per page in ModePages. The default is 500.
	PageSize int64
	// WatchTimeout is the shortest timeout that the informer usually requests for a WATCH. Each
	// timeout is random, between WatchTimeout and twice WatchTimeout: watches that start together
	// after a restart of the server then do not all end together. Servers count in whole seconds, so
	// the shortest timeout is 1 s. If watches keep breaking off, and have sent nothing for 90 s in
	// total, the next WATCH has a timeout of 3 s. Servers send a bookmark shortly before the timeout,
	// so the informer can receive a bookmark before this WATCH breaks off. The default is 5 minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline is how long the informer waits for the next initial event in ModeWatchList. If
	// the server sends no event for that time, and the bookmark that ends the initial events is still
	// missing, Err is ErrNoBookmark. The informer then sends a LIST instead. The default is 20 s.
	BookmarkDeadline time.Duration
	// MaxLists limits how many LISTs and WATCHes with initial events may be active on one server at
	// the same time. Such a request of this informer waits until fewer than MaxLists are active. The
	// informer counts the requests of all informers in its ServerGroup; all informers of a factory
	// share one ServerGroup. An informer without a ServerGroup counts only its own requests. A LIST
	// that receives nothing for 10 s no longer counts. The default is 8.
	MaxLists int
	// Backoff sets how long to wait before a retry.
	Backoff Backoff
}

// Mode selects the requests that fetch the server's whole state.
type Mode uint8

const (
	// ModeAuto selects ModeList for servers that stream their LISTs (Kubernetes 1.33 and later), and
	// ModePages for older servers. It is the zero value.
	ModeAuto Mode = iota
	// ModeList selects one LIST without a limit. If the LIST breaks off twice, the informer lists in
	// pages.
	ModeList
	// ModePages selects LISTs of PageSize objects each. An older server can answer a page without
	// loading all objects into memory.
	ModePages
	// ModeWatchList selects a WATCH with initial events (KEP-3157). If the server does not support
	// them, the informer continues with ModeAuto.
	ModeWatchList
)

// String returns the mode's name: "Auto", "List", "Pages" or "WatchList".
func (m Mode) String() string { return reflector.Mode(m).String() }

// Consistency selects which state an informer accepts when it fetches the server's whole state. The
// state in the server's cache may be some seconds old.
type Consistency uint8

const (
	// ConsistencyMostRecent requests the state at the time when the server receives the request
	// (resourceVersion unset). Since Kubernetes 1.31, servers answer it from their cache. It is the
	// zero value.
	ConsistencyMostRecent Consistency = iota
	// ConsistencyAny accepts the state in the server's cache: the informer requests resourceVersion
	// "0", or a state that is not older than the informer's own. The state may be some seconds old. A
	// server before Kubernetes 1.31 needs less CPU and memory for such a request than for a request of
	// the most recent state. After a "too old" error, and after the server's state went back in time,
	// the informer requests the most recent state, as with ConsistencyMostRecent.
	ConsistencyAny
)

// String returns the consistency's name: "MostRecent" or "Any".
func (c Consistency) String() string { return reflector.Consistency(c).String() }

// Backoff sets how long to wait before a retry. The first wait is Min. Each further wait is twice
// as long, up to Max. Each wait is then shortened at random by up to a half. A wait is at least as
// long as the server's Retry-After; a Retry-After of more than 2 minutes counts as 2 minutes. A
// server that does not answer, or that answers 5xx within a second, may recover soon. After each of
// the first 22 such failures, the wait does not exceed twice Min.
type Backoff struct {
	Min time.Duration // the default is 0.8 s
	Max time.Duration // the default is 30 s
	// Denied limits the waits after an answer whose cause an administrator may correct: missing
	// credentials, permissions or resources. Denied does not apply if the server refuses a WATCH and
	// the informer then lists thousands of objects instead. For a resource that the server served
	// before, the limit is Min. The default is 5 s.
	Denied time.Duration
	// Healthy is how long watches must run in total without a failure until the informer resets the
	// next wait to Min. The default is 10 s.
	Healthy time.Duration
	// Random returns numbers in [0, 1). Several goroutines may call it at the same time. The default
	// is rand.Float64 of math/rand/v2.
	Random func() float64
}

// ServerGroup groups the informers of one API server. To form a group, set Options.Server of each
// informer to a pointer to the same ServerGroup; a factory does this for its informers. When one of
// the informers detects that the server was restored from a backup, all of them list again. The
// informers of a group share the limit ListWatch.MaxLists.
//
// A ServerGroup has no fields or methods for users. The zero value is ready to use. A ServerGroup
// must not be copied. It is safe for concurrent use, and does not keep informers in memory.
type ServerGroup reflector.Server
