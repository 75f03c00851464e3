package reflector

import (
	"math/rand/v2"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// Mode says how a reflector requests the state of the server. The package comment lists the
// requests of each mode.
type Mode uint8

const (
	// Auto is List where the server streams its encoding (since Kubernetes 1.33), and Pages
	// elsewhere. It is the zero value.
	Auto Mode = iota
	// List sends one LIST without a limit. After two such LISTs broke off, the reflector requests
	// pages.
	List
	// Pages sends LISTs for Config.PageSize objects each. An older server can answer such a LIST
	// without the whole state in memory.
	Pages
	// WatchList sends a WATCH with initial events (KEP-3157). If the server does not support that,
	// the mode becomes Auto.
	WatchList
)

var modeNames = [...]string{Auto: "Auto", List: "List", Pages: "Pages", WatchList: "WatchList"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// Consistency says how current the first state must be.
type Consistency uint8

const (
	// MostRecent requests the state at the time of the request (resourceVersion unset). Servers
	// answer it from their cache since Kubernetes 1.31. It is the zero value.
	MostRecent Consistency = iota
	// Any requests the state in the server's cache: resourceVersion 0, or not older than the store.
	// It costs older servers less, and the state may be some seconds old. After "too old", and
	// after the server went back in time, lists are consistent even with Any.
	Any
)

var consistencyNames = [...]string{MostRecent: "MostRecent", Any: "Any"}

func (c Consistency) String() string { return name(consistencyNames[:], int(c)) }

// Config configures a Reflector. The zero value works.
type Config struct {
	// Name is copied to Status.Name, so that an owner of many reflectors can identify them.
	Name string
	// Mode says how the reflector requests the state. Zero: Auto.
	Mode Mode
	// Consistency says how current the first state must be. Zero: MostRecent.
	Consistency Consistency
	// PageSize is the limit of a page in mode Pages, in objects. With a larger page there are fewer
	// requests, but an older server uses more memory. The memory use of the reflector does not
	// depend on it. 0: 500.
	PageSize int64
	// WatchTimeout is the shortest time after which the reflector asks the server to end a watch.
	// The longest is twice that. The time is random, so that the watches of a restarted server do
	// not all end together. The request states whole seconds, at least one. While watches send
	// nothing, the reflector asks for some that end after 3 s. 0: 5 minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline bounds the time without an initial event in mode WatchList, until the
	// initial events are complete. After that the watch fails with ErrNoBookmark, and a LIST
	// follows. Changes do not count as initial events: a server that does not support initial
	// events sends changes. 0: 20 s.
	BookmarkDeadline time.Duration
	// Backoff sets the pace of retries.
	Backoff Backoff
	// Encoding is the encoding that the sink accepts. An answer in another encoding fails with
	// ErrEncoding, unless Transcode is set. 0: any.
	Encoding wire.Encoding
	// Transcode, when not nil, translates an object from another encoding to Encoding and appends
	// the result to dst. It is for servers that support only one of the two encodings; many
	// aggregated servers support only JSON. If it returns an error, the reflector skips the object
	// and counts it in Status.Skipped.
	Transcode func(dst, object []byte) ([]byte, error)
	// Drop, when not nil, removes fields from each object before the sink gets it.
	Drop *wire.Dropper
	// Keep, when not nil, reports whether an object is wanted. The reflector reads only the
	// metadata of an unwanted object, does not store it, and counts it in Status.Unwanted. Keep may
	// depend only on properties of an object that never change: its namespace, name and uid. m is
	// valid during the call.
	Keep func(m *wire.Meta) bool
	// OnItemType, when not nil, is called with the apiVersion and kind of the objects: once an
	// answer states them, and when they change. In JSON lists of built-in kinds the items do not
	// state them. If the list states them before its items, or the first item does, as with
	// kube-apiserver, the call precedes the storing of the first object. OnItemType must not block.
	OnItemType func(wire.TypeMeta)
	// MaxLists bounds how many lists may be under way when a list of this reflector starts, this
	// list included. It counts the lists of all reflectors that share Server: LISTs, from the first
	// page to the last, and WATCHes until their initial events are complete. The list waits until
	// there are few enough. A list that receives nothing for 10 s, or for less while others receive
	// nothing, does not count any more. 0: 8.
	MaxLists int
	// Server, when not nil, is shared by all reflectors of one server. When one of them finds that
	// the server went back in time, the others list again.
	Server *Server
	// OnStatus, when not nil, is called at each transition, by the reflector's goroutine. It must
	// not block and must not call any method of the reflector except Status.
	OnStatus func(Status)
}

// Backoff sets the pace of retries after failures. The first wait is Min. Each next wait is twice
// as long, up to Max. Each wait is then shortened by up to a half, at random. A wait is at least as
// long as the server's Retry-After, but a Retry-After over 2 minutes counts as 2 minutes.
//
// While no server answers, or a server refuses within a second, the waits do not grow beyond twice
// Min for the first 22 failures: the server may recover soon.
type Backoff struct {
	Min time.Duration // 0: 0.8 s
	Max time.Duration // 0: 30 s
	// Denied replaces Max for failures that an administrator may correct soon: missing credentials,
	// permissions or resources. It does not apply to a list of thousands of objects that replaces a
	// watch. For a resource that existed shortly before, the waits stay at Min. 0: 5 s.
	Denied time.Duration
	// Healthy is the total time that watches in a row must stay open, without a failure between
	// them, before the reflector clears the count of earlier failures. 0: 10 s.
	Healthy time.Duration
	// Random returns a number in [0, 1). Several goroutines may call it at the same time. nil:
	// math/rand/v2.
	Random func() float64
}

// defaultWatchTimeout is the Config.WatchTimeout of a zero Config.
const defaultWatchTimeout = 5 * time.Minute

func (c Config) withDefaults() Config {
	if c.PageSize <= 0 {
		c.PageSize = 500
	}
	if c.MaxLists <= 0 {
		c.MaxLists = 8
	}
	fill(&c.WatchTimeout, defaultWatchTimeout)
	fill(&c.BookmarkDeadline, 20*time.Second)
	fill(&c.Backoff.Min, 800*time.Millisecond)
	fill(&c.Backoff.Max, 30*time.Second)
	fill(&c.Backoff.Denied, 5*time.Second)
	fill(&c.Backoff.Healthy, 10*time.Second)
	if c.Backoff.Random == nil {
		c.Backoff.Random = rand.Float64
	}
	return c
}

func fill(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// name returns the name of an enumeration value, or "unknown".
func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
