package reflector

import (
	"math/rand/v2"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// Mode says how a reflector gets the state of the server. The package comment lists what each mode
// requests.
type Mode uint8

const (
	// Auto is List where the server streams its encoding (1.33 on), and Pages elsewhere. It is the
	// zero value.
	Auto Mode = iota
	// List makes one LIST without a limit. After two that broke off, it asks for pages.
	List
	// Pages makes LISTs of Config.PageSize objects each. An older server can answer one without
	// holding the whole state in memory.
	Pages
	// WatchList makes a WATCH with initial events (KEP-3157). Where the server cannot do that, it
	// becomes Auto.
	WatchList
)

var modeNames = [...]string{Auto: "Auto", List: "List", Pages: "Pages", WatchList: "WatchList"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// Consistency says how current the first state must be.
type Consistency uint8

const (
	// MostRecent asks for the state as of the request (resourceVersion unset). Servers answer it
	// from their cache since 1.31. It is the zero value.
	MostRecent Consistency = iota
	// Any asks for the state in the server's cache: resourceVersion 0, or not older than the store.
	// It is cheaper with older servers, and may be some seconds old. Lists are consistent
	// all the same after "too old", and once a server went back in time.
	Any
)

var consistencyNames = [...]string{MostRecent: "MostRecent", Any: "Any"}

func (c Consistency) String() string { return name(consistencyNames[:], int(c)) }

// Config configures a Reflector. The zero value works.
type Config struct {
	// Name is copied to Status.Name, for owners with many reflectors.
	Name string
	// Mode says how the state is got. Zero: Auto.
	Mode Mode
	// Consistency says how current the first state must be. Zero: MostRecent.
	Consistency Consistency
	// PageSize is the limit of a page in mode Pages, in objects. A larger page makes fewer requests
	// and takes more memory in an older server. It makes no difference to the memory used here. 0:
	// 500.
	PageSize int64
	// WatchTimeout is the shortest time after which the server is asked to end a watch. The longest
	// is twice that. The time is random, so that the watches of a restarted server do not stay in
	// step. A server is asked for whole seconds, one at least. While watches bring nothing, some
	// are asked to end after 3 s. 0: 5 minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline bounds how long the server may send no initial event in mode WatchList
	// before they are complete. After that the watch fails with ErrNoBookmark, and a LIST follows.
	// Changes do not count as initial events: a server that does not know of initial events sends
	// changes. 0: 20 s.
	BookmarkDeadline time.Duration
	// Backoff sets the pace of new tries.
	Backoff Backoff
	// Encoding is the encoding that the sink takes. An answer in another one fails with
	// ErrEncoding, unless Transcode is set. 0: any.
	Encoding wire.Encoding
	// Transcode, when not nil, appends to dst an object of another encoding, translated to
	// Encoding. It is for servers that have only one of the two; many aggregated servers have JSON
	// only. An object for which it returns an error is skipped, and counted so.
	Transcode func(dst, object []byte) ([]byte, error)
	// Drop, when not nil, removes fields from each object before the sink gets it.
	Drop *wire.Dropper
	// Keep, when not nil, reports whether an object is wanted. One that is not is read no further
	// than its metadata, is not put in the store, and is counted in Status.Unwanted. Keep may
	// depend only on what never changes of an object: its namespace, name and uid. m is valid
	// during the call.
	Keep func(m *wire.Meta) bool
	// OnItemType, when not nil, is called with the apiVersion and kind of the objects: once an
	// answer has said them, and when they change. Items of JSON lists of built-in kinds do not say
	// them themselves. Where the list says them before its items, or the first item does, as with
	// kube-apiserver, the call comes before the first object is put in the store. OnItemType must
	// not block.
	OnItemType func(wire.TypeMeta)
	// MaxLists is how many lists of the reflectors that share Server may be under way when one of
	// this reflector begins, itself included: LISTs, from the first page to the last, and WATCHes
	// until their initial events are complete. It waits for its turn. One that brings nothing for
	// 10 s, or for less while others bring nothing, is not counted any more. 0: 8.
	MaxLists int
	// Server, when not nil, is shared by all reflectors of one server. When one of them finds that
	// the server went back in time, the others list again.
	Server *Server
	// OnStatus, when not nil, is called with each transition, by the reflector's own goroutine: it
	// must not block and must not call the reflector back, other than Status.
	OnStatus func(Status)
}

// Backoff sets the pace of new tries after failures. The first wait is Min. Each next one is twice
// as long, up to Max. Each wait is then shortened by up to a half, at random. A wait is no shorter
// than the server's Retry-After, of which up to 2 minutes count.
//
// While no server answers, or one refuses within a second, the waits do not grow beyond twice Min
// for the first 22 failures: the server may be back at any moment.
type Backoff struct {
	Min time.Duration // 0: 0.8 s
	Max time.Duration // 0: 30 s
	// Denied replaces Max for what may be put right at any moment: missing credentials,
	// permissions, resources; but not for a list of thousands of objects in place of a watch. For a
	// resource that was there a moment ago, the waits stay at Min. 0: 5 s.
	Denied time.Duration
	// Healthy is how long watches must have stood, one after the other and without a failure in
	// between, for the failures before them to be forgotten. 0: 10 s.
	Healthy time.Duration
	// Random returns a number in [0, 1). Several goroutines may call it at once. nil: math/rand/v2.
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
