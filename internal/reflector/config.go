package reflector

import (
	"math/rand/v2"
	"time"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// Mode is how a reflector gets the state of the server. See the package comment for what each one
// requests.
type Mode uint8

const (
	// Auto is List where the server streams its encoding (1.33 on), else Pages. It is the zero
	// value.
	Auto Mode = iota
	// List is one LIST without a limit. One that broke off twice is asked for in pages.
	List
	// Pages is a LIST of Config.PageSize objects at a time: what an older server can give without
	// holding all of it.
	Pages
	// WatchList is a WATCH with initial events (KEP-3157), and List where the server cannot do
	// that.
	WatchList
)

var modeNames = [...]string{Auto: "Auto", List: "List", Pages: "Pages", WatchList: "WatchList"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// Consistency is how current the first state must be.
type Consistency uint8

const (
	// Consistent is the state when the server got the request (resourceVersion unset). Servers
	// answer it from their cache since 1.31. It is the zero value.
	Consistent Consistency = iota
	// Any is whatever the server has in its cache (resourceVersion 0, or not older than what we
	// hold): cheaper with older servers, and possibly some seconds old. After "too old" and once a
	// server went back in time, lists are consistent all the same.
	Any
)

var consistencyNames = [...]string{Consistent: "Consistent", Any: "Any"}

func (c Consistency) String() string { return name(consistencyNames[:], int(c)) }

// Config of a reflector. The zero value works.
type Config struct {
	// Name is the Status's, for owners with many reflectors.
	Name string
	// Mode is how the state is got. Zero: Auto.
	Mode Mode
	// Consistency is how current it must be. Zero: Consistent.
	Consistency Consistency
	// PageSize is the limit of a page in mode Pages, in objects. 0: 500. Larger is fewer requests
	// and more memory in an older server; here it makes no difference.
	PageSize int64
	// WatchTimeout is the shortest time after which the server is asked to end a watch; the longest
	// is twice that, at random, so that the watches of a restarted server do not stay in step. 0: 5
	// minutes.
	WatchTimeout time.Duration
	// BookmarkDeadline is how long the server may send no initial event in mode WatchList before
	// they are complete. Then it is ErrNoBookmark, and a LIST instead. Changes, which a server
	// sends that does not know of initial events, do not count. 0: 20 s.
	BookmarkDeadline time.Duration
	// Backoff is the pace of new tries.
	Backoff Backoff
	// Encoding is what the store holds. An answer in another one is ErrEncoding, unless Transcode
	// is set. 0: any.
	Encoding wire.Encoding
	// Transcode, when not nil, appends to dst what an object of another encoding is in Encoding,
	// for servers that have but one of the two: many aggregated ones have JSON only. Its error
	// counts the object as skipped.
	Transcode func(dst, object []byte) ([]byte, error)
	// Drop, when not nil, removes fields from each object before it is put in the store.
	Drop *wire.Dropper
	// Keep, when not nil, reports whether an object is one of those that are wanted. Others are
	// read no further than their metadata, are not put in the store, and are counted as
	// Status.Unwanted. It may only depend on what never changes of an object: its namespace, name
	// and uid. m is valid during the call.
	Keep func(m *wire.Meta) bool
	// OnItemType, when not nil, is told the apiVersion and kind of the objects, once an answer has
	// said it and when it changes: items of JSON lists of built-in kinds do not say it themselves.
	// It is called before the first object is put in the store where the server says it first, as
	// kube-apiserver does. It must not block.
	OnItemType func(wire.TypeMeta)
	// Take, when not nil, is called in place of the writer's Put and Delete, for an owner that
	// changes objects before they are held. t is 0 for an item of a list. m and object are valid
	// during the call, in which Take puts or deletes what it likes, or nothing; its error counts
	// the object as skipped.
	Take func(w *store.Writer, t wire.EventType, m *wire.Meta, object []byte) error
	// Replacer, when not nil, is called in place of the writer's BeginReplace, EndReplace and
	// AbortReplace.
	Replacer Replacer
	// Server, when not nil, is what all reflectors of one server have in common: when one of them
	// finds that it went back in time, the others list again.
	Server *Server
	// OnStatus, when not nil, is told of each transition, by the reflector's own goroutine: it must
	// not block and must not call the reflector back, other than Status.
	OnStatus func(Status)
}

// Backoff is the pace of new tries after failures: Min, then twice as long each time up to Max,
// each wait shortened by up to a half at random. The server's Retry-After is kept on top, up to 2
// minutes. While no server answers, or one refuses within a second, the waits do not grow beyond
// the second for the first 22 failures: it may be back at any moment.
type Backoff struct {
	Min time.Duration // 0: 0.8 s
	Max time.Duration // 0: 30 s
	// Denied is Max for what somebody may put right at any moment: missing credentials,
	// permissions, resources. 0: 5 s. For a resource that was there a moment ago it is Min.
	Denied time.Duration
	// Healthy is how long a watch must have stood for the failures before it to be forgotten. 0: 10
	// s.
	Healthy time.Duration
	// Random gives numbers in [0, 1), and is called by several goroutines at once. nil: those of
	// math/rand/v2.
	Random func() float64
}

func (c Config) withDefaults() Config {
	if c.PageSize <= 0 {
		c.PageSize = 500
	}
	fill(&c.WatchTimeout, 5*time.Minute)
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

// name is the name of an enumeration's value.
func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// Replacer does the steps of a relist in place of the writer, for an owner that wants a say in how
// a relist comes into the store: with Config.Take it sees everything that a reflector writes. Each
// method must come to the call of the writer that has its name, sooner or later. They are called by
// the reflector's own goroutine and may block it.
type Replacer interface {
	BeginReplace(w *store.Writer, rebase bool)
	EndReplace(w *store.Writer, resourceVersion string)
	AbortReplace(w *store.Writer)
}

// replacer is the owner's, or the writer itself.
func (c *Config) replacer() Replacer {
	if c.Replacer != nil {
		return c.Replacer
	}
	return plainReplacer{}
}

type plainReplacer struct{}

func (plainReplacer) BeginReplace(w *store.Writer, rebase bool) { w.BeginReplace(rebase) }
func (plainReplacer) EndReplace(w *store.Writer, rv string)     { w.EndReplace(rv) }
func (plainReplacer) AbortReplace(w *store.Writer)              { w.AbortReplace() }
