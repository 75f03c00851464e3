package reflector

import (
	"math/rand/v2"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// Mode says with which requests a reflector obtains the state of the server. The package comment
// lists the requests of each mode.
type Mode uint8

const (
	// Auto is List if the server encodes a list while it sends it (since Kubernetes 1.33), and
	// otherwise Pages. It is the zero value.
	Auto Mode = iota
	// List sends one LIST without a limit. After two failed LISTs, the reflector requests pages.
	List
	// Pages sends LISTs with the limit Config.PageSize. A server before 1.33 can then respond without
	// the whole state in memory.
	Pages
	// WatchList sends a WATCH with initial events (KEP-3157). If the server does not support initial
	// events, the mode becomes Auto.
	WatchList
)

var modeNames = [...]string{Auto: "Auto", List: "List", Pages: "Pages", WatchList: "WatchList"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// Consistency says how current the first state must be. After some errors of the server, the
// reflector requests a consistent list even if the Config does not require one.
type Consistency uint8

const (
	// MostRecent requests the state at the time of the request (resourceVersion unset). Since
	// Kubernetes 1.31, servers send this state from their cache. It is the zero value.
	MostRecent Consistency = iota
	// Any accepts a state from the server's cache, which may be some seconds old. The first list has
	// resourceVersion 0, and later lists have the condition "not older than the store". Such lists
	// cost servers before 1.31 less than consistent ones. After a 410 ("too old resource version"),
	// and after the server went back in time, lists are consistent even with Any.
	Any
)

var consistencyNames = [...]string{MostRecent: "MostRecent", Any: "Any"}

func (c Consistency) String() string { return name(consistencyNames[:], int(c)) }

// Config configures a Reflector. The zero value has working defaults.
type Config struct {
	// Name is copied to Status.Name, so that a program with many reflectors can identify them.
	Name string
	// Mode says with which requests the reflector obtains the state. The default is Auto.
	Mode Mode
	// Consistency says how current the first state must be. The default is MostRecent.
	Consistency Consistency
	// PageSize is the maximum number of objects of a page in mode Pages. With larger pages there are
	// fewer requests, but a server before 1.33 uses more memory. The memory use of the reflector does
	// not depend on PageSize. The default is 500.
	PageSize int64
	// WatchTimeout is the minimum timeout that the reflector sends in the request of a watch. The
	// timeout is random and up to twice as long, so that the watches of a restarted server do not all
	// end together. It is rounded to whole seconds, and is at least one second. After watches have
	// sent nothing for 90 s, the next watch has a timeout of 3 s; see the package comment. The default
	// is 5 minutes.
	WatchTimeout time.Duration
	// While the initial events of mode WatchList are incomplete, BookmarkDeadline limits the time that
	// passes without an initial event. When the deadline passes, the watch fails with ErrNoBookmark,
	// and a LIST follows. Changes do not count as initial events, because a server that does not
	// support initial events also sends changes. The default is 20 s.
	BookmarkDeadline time.Duration
	// Backoff says how long the reflector waits before it retries a failed request.
	Backoff Backoff
	// Query contains the selectors and the other parameters that the reflector sends with each LIST
	// and WATCH. The reflector itself sets the parameters that depend on its state, such as the
	// resourceVersion.
	Query metav1.ListOptions
	// Encoding is the encoding that the sink accepts. A response in another encoding fails with
	// ErrEncoding, unless Transcode is set. 0 means that the sink accepts any encoding.
	Encoding wire.Encoding
	// Transcode, when not nil, translates an object from another encoding to Encoding and appends the
	// result to dst. It is for servers that support only one of the two encodings, such as the many
	// aggregated servers that support only JSON. If Transcode returns an error, the reflector skips
	// the object and counts it in Status.Skipped.
	Transcode func(dst, object []byte) ([]byte, error)
	// Drop, when not nil, removes fields from each object before the sink receives it.
	Drop *wire.Dropper
	// Keep, when not nil, reports whether the sink should receive an object. The reflector reads only
	// the metadata of any other object, and counts it in Status.Unwanted. Keep may depend only on the
	// namespace, name and uid of an object, which never change. m is valid during the call.
	Keep func(m *wire.Meta) bool
	// OnItemType, when not nil, is called when a response first states the apiVersion and kind of the
	// objects, and when they change. kube-apiserver states them before the first object is stored.
	// Other servers may state the type of a list after its items, and no type in the items. Then
	// OnItemType is called at the end of the list. OnItemType must not block.
	OnItemType func(wire.TypeMeta)
	// MaxLists limits the lists that run at the same time. While MaxLists or more lists of the
	// reflectors that share Server run, a list of this reflector waits. A LIST runs from its first
	// page to its last, and a WATCH counts as a list until its initial events are complete. A list
	// that receives nothing for 10 s no longer counts. If many lists hang, this time becomes shorter.
	// The default is 8.
	MaxLists int
	// Server, when not nil, is shared by all reflectors of one server. If one of them finds that the
	// server went back in time, the others list again.
	Server *Server
	// OnStatus, when not nil, receives the new Status when Phase, Mode, Synced, Err, Attempts, Relists
	// or Skipped has changed, and at the start of each wait. If a response to a probe clears Err, only
	// the next call shows that. OnStatus is called in the goroutine of Run. It must not block, and
	// must not call a method of the reflector other than Status.
	OnStatus func(Status)
}

// ConfigOf returns a Config with the values of settings, a struct such as weir.ListWatch. Each
// field of settings must have the name of a field of Config or of Config.Query, and a type that
// converts to that field's type. Otherwise ConfigOf panics.
func ConfigOf(settings any) (c Config) {
	config, query := reflect.ValueOf(&c).Elem(), reflect.ValueOf(&c.Query).Elem()
	for field, value := range reflect.ValueOf(settings).Fields() {
		to := config.FieldByName(field.Name)
		if !to.IsValid() {
			to = query.FieldByName(field.Name)
		}
		to.Set(value.Convert(to.Type()))
	}
	return c
}

// SetShard restricts the reflector to a shard: keep becomes Keep, and each request has the shard
// selector, which is empty for all objects. The ListOptions of apimachinery before v0.36 have no
// shard selector; the server then sends all objects.
func (c *Config) SetShard(selector string, keep func(*wire.Meta) bool) {
	c.Keep = keep
	if f := reflect.ValueOf(&c.Query).Elem().FieldByName("ShardSelector"); f.IsValid() {
		f.SetString(selector)
	}
}

// Backoff says how long a reflector waits after failures. The first wait is Min. Each following
// wait is twice as long, up to Max. Each wait is then shortened by up to a half, at random. A wait
// is at least as long as the server's Retry-After, but a Retry-After over 2 minutes counts as 2
// minutes.
//
// A server that does not respond, or responds within a second with a 5xx error, may recover soon.
// So the first 22 waits after such failures are at most twice Min.
type Backoff struct {
	Min time.Duration // 0: 0.8 s
	Max time.Duration // 0: 30 s
	// Denied replaces Max after failures that an administrator may correct soon: missing credentials,
	// permissions or resources. It does not apply to a list of thousands of objects that replaces a
	// watch, because such a list is expensive. If a resource is missing that existed shortly before,
	// the waits stay at Min. The default is 5 s.
	Denied time.Duration
	// Healthy is the total time for which watches in a row must be open without a failure. After that
	// time, the reflector forgets earlier failures, so that the next wait is Min again. The default is
	// 10 s.
	Healthy time.Duration
	// Random returns a number in [0, 1). Several goroutines may call it at the same time. The default
	// is Float64 of math/rand/v2.
	Random func() float64
}

// defaultWatchTimeout is the default of Config.WatchTimeout.
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
