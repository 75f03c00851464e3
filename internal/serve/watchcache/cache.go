package watchcache

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Config configures a [Cache]. Resource, Store and Encoding are required; the zero value of every
// other field works.
type Config struct {
	Resource Resource
	// Store contains the objects. It should have a change log (store.Config.KeepLog): without a log,
	// no client can resume a watch. The cache reads the store and does not close it.
	Store *store.Store
	// Encoding is the encoding of the objects in the store.
	Encoding wire.Encoding
	// Clock reports how current the store is. nil: the cache uses the progress of the store's writers.
	Clock Clock
	// History maps resourceVersions to revisions of the store. nil: no client can resume a watch.
	History *History
	// LabelSets adds an index by the complete label set of an object. With this index, the first
	// request with a label selector is as cheap as later requests. It uses about 45 bytes per object.
	// It does not help if few objects have the same labels.
	LabelSets bool
	// BookmarkInterval is the time between two bookmarks of a watcher. 0: one minute.
	BookmarkInterval time.Duration
	// MinWatch is the least duration of a WATCH without timeoutSeconds. Such a WATCH lasts a random
	// time between MinWatch and twice MinWatch. 0: 30 minutes.
	MinWatch time.Duration
	// Flush decides how long a watcher waits between two writes while changes arrive continuously.
	// nil: the watcher writes each change immediately.
	Flush *FlushPacer
	// ExpireLate ends a watch with 410 Expired in two cases: the watch is so slow that the cache
	// coalesced its changes, or a relist found the watch's next change, which may then replace several
	// changes. false: the cache sends such a watch one change per key instead.
	ExpireLate bool
	// WatchBuffer is called at the start of each watch and returns how many changes may wait for the
	// watch. If more changes wait, the cache closes the watch without an error, as kube-apiserver's
	// watch cache does with a watcher whose buffer is full. WatchBuffer is for tests and
	// demonstrations. If it is nil or returns 0, or if the hub serves the watch, the cache never
	// closes a slow watch for that reason.
	WatchBuffer func() int
	// Closed is the error with which the cache answers requests after Close. nil: 503.
	Closed error
	// Bookmarks is called at the start of each watch. It lets tests delay the bookmark that ends
	// the initial events, or suppress bookmarks. nil: neither.
	Bookmarks func() (late time.Duration, never bool)
}

// Clock reports how current a cache is.
type Clock interface {
	// Observe calls f with a resourceVersion. While f runs, the store has every change up to that
	// resourceVersion and no later one. f must not block.
	Observe(f func(resourceVersion uint64))
	// Wait blocks until the store has every change up to resourceVersion. It returns ctx's error if
	// ctx ends first.
	Wait(ctx context.Context, resourceVersion uint64) error
}

// Cache serves GET, LIST and WATCH of one resource from a store. It is safe for concurrent use.
// Each watch waits in the goroutine of its request. The hub runs one more goroutine while it has
// subscriptions.
type Cache struct {
	cfg      Config // with the defaults
	resource *Resource
	store    *store.Store
	encoding wire.Encoding
	codec    *codec.Codec
	clock    Clock
	history  *History
	fields   map[string]*selectableField

	floor       atomic.Uint64 // resourceVersions below floor are expired
	pagedStates stateCache

	indexes     indexes
	sets        labelSets
	hub         hub
	held        heldChanges // changes queued by the hub, and by watchers that are being caught up
	encoded     encodeCache
	bodies      sharedBodies
	readWrites  writeDeadlines // of LISTs and GETs
	watchWrites writeDeadlines // of WATCHes
	drain       drain
	counters    counters

	closing context.Context // done when the cache closes
	close   context.CancelFunc
	expired atomic.Bool // set before close: watches end with 410
}

const (
	defaultBookmarkInterval = time.Minute
	defaultMinWatch         = 30 * time.Minute
	// writeTimeout is how long one write to a client may block before its connection is closed.
	writeTimeout = 5 * time.Minute
)

// New returns a cache. It fails if a field path does not exist in the resource's type, or if a
// field with Indexed does not have exactly one path.
func New(cfg Config) (*Cache, error) {
	r := cfg.Resource
	r.ListKind = cmp.Or(r.ListKind, r.Kind+"List")
	r.conversion = newConversion(&r, cfg.Encoding)
	cfg.setDefaults()
	c := &Cache{
		cfg: cfg, resource: &r, store: cfg.Store, encoding: cfg.Encoding, codec: codec.OfStruct(r.Type), clock: cfg.Clock, history: cfg.History,
	}
	c.indexes = indexes{cache: c, byName: map[string]*index{}}
	c.hub.cache = c
	c.pagedStates.limit = maxCachedStateBytes
	for _, ds := range []*writeDeadlines{&c.readWrites, &c.watchWrites} {
		ds.timeout, ds.stalled = writeTimeout, &c.counters.stalled
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.drain = newDrain(c.closing)
	var err error
	if c.fields, err = compileFields(cfg.Encoding, &r); err != nil {
		return nil, err
	}
	var names []string
	if cfg.LabelSets {
		names = append(names, labelSetIndex)
	}
	for _, f := range r.Fields {
		if f.Indexed {
			names = append(names, fieldPrefix+f.Label)
		}
	}
	for _, name := range names {
		if err := c.indexes.add(name, &index{permanent: true}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (cfg *Config) setDefaults() {
	if cfg.BookmarkInterval <= 0 {
		cfg.BookmarkInterval = defaultBookmarkInterval
	}
	if cfg.MinWatch <= 0 {
		cfg.MinWatch = defaultMinWatch
	}
	if cfg.Clock == nil {
		cfg.Clock = storeClock{cfg.Store}
	}
	if cfg.Closed == nil {
		cfg.Closed = apierrors.NewServiceUnavailable("the server is shutting down")
	}
	cfg.History = cmp.Or(cfg.History, NewHistory(0, math.MaxUint64, 0))
	if cfg.Bookmarks == nil {
		cfg.Bookmarks = func() (time.Duration, bool) { return 0, false }
	}
}

// Close ends all watches and does not wait for them to end. A watch that is waiting when Close is
// called first sends all changes that the cache has. A watch that is sending when Close is called
// sends the remaining changes only if they fit into one batch. In both cases, if the client
// requested bookmarks, the watch ends with a last bookmark. A watch that is sending its initial
// events ends without the rest of them. A watch that is still being caught up after closeGrace ends
// without a bookmark. Later requests receive Config.Closed.
func (c *Cache) Close() {
	c.close()
	c.readWrites.close(closeGrace)
	c.watchWrites.close(closeGrace)
	c.pagedStates.close()
}

// Expire closes the cache and ends its watches with 410 Expired, before their next event. Use it
// when the upstream server was restored to an earlier state, so that the clients' objects and
// resourceVersions no longer exist.
func (c *Cache) Expire() {
	c.expired.Store(true)
	c.Close()
}

// Compact expires all resourceVersions before the current one. A request for an expired one
// receives 410 Expired.
func (c *Cache) Compact() {
	c.CompactTo(c.currentState().rv)
}

// CompactTo permanently expires all resourceVersions that are lower than the given one. A request
// for one of them receives 410 Expired.
func (c *Cache) CompactTo(resourceVersion uint64) {
	for {
		floor := c.floor.Load()
		if floor >= resourceVersion || c.floor.CompareAndSwap(floor, resourceVersion) {
			break
		}
	}
	c.pagedStates.drop(resourceVersion)
}

// Serve answers a read, and returns when the response has ended. It uses the parsed request rd and
// ignores the URL of r.
func (c *Cache) Serve(w http.ResponseWriter, r *http.Request, rd *request.Request) {
	if rest := c.Begin(w, r, rd); rest != nil {
		rest()
	}
}

// Begin answers a GET or a LIST, or starts a WATCH, like [Cache.Serve]. For a WATCH, Begin may send
// the initial events, and returns rest. rest sends the initial events that are still missing, then
// the changes, and returns when the WATCH ends. For other requests, rest is nil. The caller must
// call rest unless it is nil.
func (c *Cache) Begin(w http.ResponseWriter, r *http.Request, rd *request.Request) (rest func()) {
	rest, err := c.begin(w, r, rd)
	if err != nil {
		c.counters.failed(err)
		WriteError(w, r, err)
	}
	return rest
}

// begin implements Begin. It returns an error only if it has written nothing to w. An error without
// a Status becomes a 500.
func (c *Cache) begin(w http.ResponseWriter, r *http.Request, rd *request.Request) (rest func(), err error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if rd.Verb == "get" {
		return nil, c.get(w, r, rd)
	}
	rep, err := c.negotiate(rd.Accept, &rd.Options)
	if err != nil {
		return nil, err
	}
	s, err := c.newSelector(rd.Namespace, rd.ReviewName(), &rd.Options)
	if err != nil {
		return nil, err
	}
	if !rd.Watch {
		return nil, c.list(w, r, rd, s, rep)
	}
	if err := rep.checkRows(); err != nil {
		return nil, err
	}
	if wt := c.openWatch(w, r, &rd.Options, s, rep); wt != nil {
		return wt.serve, nil
	}
	return nil, nil
}

const notReadyRetrySeconds = 1

func (c *Cache) ready() error {
	if c.closing.Err() != nil {
		return c.cfg.Closed
	}
	if !c.store.Synced() {
		return apierrors.NewTooManyRequests("storage is (re)initializing", notReadyRetrySeconds)
	}
	return nil
}

// storeClock is a Clock that reports the progress of the store's writers.
type storeClock struct{ *store.Store }

func (s storeClock) Observe(f func(uint64)) { f(resourceversion.Number(s.ResourceVersion())) }

func (s storeClock) Wait(ctx context.Context, rv uint64) error {
	return s.WaitResourceVersion(ctx, resourceversion.Format(rv))
}
