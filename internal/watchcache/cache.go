package watchcache

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// Config says what a [Cache] serves, and how. Resource, Store and Encoding are needed; the zero value of the rest works.
type Config struct {
	Resource Resource
	// Store holds the objects. It should keep its log (store.Config.KeepLog), or no client can resume a watch. The cache reads it and
	// does not close it.
	Store *store.Store
	// Encoding of the objects in the store.
	Encoding wire.Encoding
	// Clock says how current the store is. nil: as current as its writers' progress.
	Clock Clock
	// History tells the resourceVersions of the store's changes. nil: no client can resume a watch.
	History *History
	// LabelIndexes are labels, and FieldIndexes labels of Resource.Fields, that are indexed from the start and for good. Others are when
	// selectors that name them keep coming. The cache adds indexes to the store, and takes away again what it has added.
	LabelIndexes, FieldIndexes []string
	// LabelSets says that objects are indexed by all their labels together, so that the first request by a label selector costs no more than
	// later ones. It takes some 45 bytes an object, and is of no use where hardly two objects have the same labels.
	LabelSets bool
	// BookmarkInterval is how often a watcher gets a bookmark. 0: a minute.
	BookmarkInterval time.Duration
	// MinWatch is the least time that a WATCH without timeoutSeconds lasts: a random time between it and twice that. 0: 30 minutes.
	MinWatch time.Duration
	// Stall is how long one write to a client may block before its connection is closed. 0: five minutes.
	Stall time.Duration
	// FlushInterval is the least time between two writes to a watcher while changes keep coming: what comes meanwhile goes out in one. A
	// change that comes after a pause of so long goes out at once. 0: every change does.
	FlushInterval time.Duration
	// Gathers says that the server gathers what is written to a connection while it answers, as the proxy does: then a LIST goes to
	// net/http in the largest pieces that there are. false: in such as fill, as a frame of HTTP/2, one TLS record each.
	Gathers bool
	// ExpireLate ends a watch with 410 Expired when its client has taken so little that changes which it has not seen are no longer known
	// one by one. false: it is caught up, with one change for each object.
	ExpireLate bool
	// Bookmarks is asked once at the start of each watch, by tests that want a server to be late with the bookmark that ends the
	// initial events, or never to send one. nil: neither.
	Bookmarks func() (late time.Duration, never bool)
}

// Clock says how current a cache is.
type Clock interface {
	// Observe calls f with a resourceVersion and, while f runs, everything up to it is in the store and nothing that is newer. f must
	// not block.
	Observe(f func(resourceVersion uint64))
	// Wait waits until everything up to resourceVersion is in the store. It returns ctx's error when that ends first.
	Wait(ctx context.Context, resourceVersion uint64) error
}

// Cache serves GET, LIST and WATCH of one resource out of a store. Safe for concurrent use. A watch lives in the goroutine of its
// request; one goroutine of the cache's own runs while there are watches that are woken only by what concerns them.
type Cache struct {
	resource   *Resource
	store      *store.Store
	encoding   wire.Encoding
	clock      Clock
	history    *History
	fields     map[string]*selectable
	bookmark   time.Duration
	minWatch   time.Duration
	flush      time.Duration
	gathers    bool
	expireLate bool
	bookmarks  func() (time.Duration, bool)

	floor atomic.Uint64 // history before this resourceVersion is not served
	kept  keptStates

	indexes  indexes
	sets     labelSets
	hub      hub
	wide     cursors // of watchers that the hub does not serve
	shared   sharedEvents
	paces    paces // of LISTs and GETs
	watching paces // of WATCHes
	drain    drain
	counters counters

	closing context.Context // ends everything
	close   context.CancelFunc
	expired atomic.Bool // set before close: they end with 410
}

const (
	defaultBookmarkInterval = time.Minute
	defaultMinWatch         = 30 * time.Minute
	defaultStall            = 5 * time.Minute
)

// New makes a cache. A field path that the resource's type does not have is an error.
func New(cfg Config) (*Cache, error) {
	r := cfg.Resource
	if r.ListKind == "" {
		r.ListKind = r.Kind + "List"
	}
	c := &Cache{
		resource:   &r,
		store:      cfg.Store,
		encoding:   cfg.Encoding,
		clock:      cfg.Clock,
		history:    cfg.History,
		bookmark:   orDefault(cfg.BookmarkInterval, defaultBookmarkInterval),
		minWatch:   orDefault(cfg.MinWatch, defaultMinWatch),
		flush:      cfg.FlushInterval,
		gathers:    cfg.Gathers,
		expireLate: cfg.ExpireLate,
		bookmarks:  cfg.Bookmarks,
	}
	c.indexes = indexes{cache: c, held: map[string]*index{}, wanted: map[string]*score{}}
	c.hub.cache = c
	for _, ps := range []*paces{&c.paces, &c.watching} {
		ps.stall, ps.stalled = orDefault(cfg.Stall, defaultStall), &c.counters.stalled
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.drain = newDrain(c.closing)
	if c.clock == nil {
		c.clock = storeClock{cfg.Store}
	}
	if c.history == nil {
		c.history = NewHistory(0, math.MaxUint64, 0)
	}
	if c.bookmarks == nil {
		c.bookmarks = func() (time.Duration, bool) { return 0, false }
	}
	var err error
	if c.fields, err = compileFields(cfg.Encoding, &r); err != nil {
		return nil, err
	}
	if cfg.LabelSets {
		if err := c.indexes.keep(labelSetIndex); err != nil {
			return nil, err
		}
	}
	return c, c.addIndexes(cfg.LabelIndexes, cfg.FieldIndexes)
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// addIndexes adds the indexes that stay.
func (c *Cache) addIndexes(labels, fields []string) error {
	for _, label := range labels {
		if err := c.indexes.keep(labelIndexName(label)); err != nil {
			return err
		}
	}
	for _, field := range fields {
		if err := c.indexes.keep(fieldIndexName(field)); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all watches, without an error to their clients, once they have sent what the store holds, and a bookmark where they have asked for
// bookmarks; it does not wait for them. Later requests are answered 503.
func (c *Cache) Close() {
	c.close()
	c.paces.close(closeGrace)
	c.watching.close(closeGrace)
	c.kept.close()
}

// Expire is Close, and tells the watches 410 Expired: the source has gone back to an earlier state, so that what their clients hold, and
// their resourceVersions, are of a past that never was.
func (c *Cache) Expire() {
	c.expired.Store(true)
	c.Close()
}

// Compact forgets the history: a resourceVersion older than now is answered with 410 Expired.
func (c *Cache) Compact() {
	c.CompactTo(c.current().rv)
}

// CompactTo forgets what was before resourceVersion, which is answered with 410 Expired from now on. What is forgotten stays so.
func (c *Cache) CompactTo(resourceVersion uint64) {
	for {
		floor := c.floor.Load()
		if floor >= resourceVersion || c.floor.CompareAndSwap(floor, resourceVersion) {
			break
		}
	}
	c.kept.drop(resourceVersion)
}

// ServeList answers a LIST, or a WATCH if the query asks for one. namespace empty: all of them. name is empty, or that of the only
// object to see.
func (c *Cache) ServeList(w http.ResponseWriter, r *http.Request, namespace, name string) {
	p, err := paramsOf(r.URL)
	if err == nil {
		err = c.serveQuery(w, r, p, namespace, name)
	}
	if err != nil {
		c.counters.failed(err)
		WriteError(w, r, err)
	}
}

// serveQuery returns an error as long as it has not answered.
func (c *Cache) serveQuery(w http.ResponseWriter, r *http.Request, p *params, namespace, name string) error {
	if err := c.ready(); err != nil {
		return err
	}
	a, ok := negotiate(r.Header, c.can)
	if !ok {
		return errNotAcceptable()
	}
	s, err := c.newSelector(namespace, name, p)
	if err != nil {
		return err
	}
	f := c.newForm(a, p.includeObject)
	if p.watch {
		return c.watch(w, r, p, s, f)
	}
	return c.list(w, r, p, s, f)
}

func (c *Cache) newForm(a accepted, includeObject string) form {
	return form{accepted: a, resource: c.resource, stored: c.encoding, rows: metav1.IncludeObjectPolicy(includeObject)}
}

const notReadyRetrySeconds = 1

func (c *Cache) ready() error {
	if c.closing.Err() != nil {
		return apierrors.NewServiceUnavailable("the server is shutting down")
	}
	if !c.store.Synced() {
		return apierrors.NewTooManyRequests("storage is (re)initializing", notReadyRetrySeconds)
	}
	return nil
}

// storeClock is as current as the progress of the store's writers.
type storeClock struct{ *store.Store }

func (s storeClock) Observe(f func(uint64)) { f(parseVersion(s.ResourceVersion())) }

func (s storeClock) Wait(ctx context.Context, rv uint64) error {
	return s.WaitResourceVersion(ctx, formatVersion(rv))
}

// parseVersion reads a resourceVersion that the store vouches for; one that is no number counts as 0.
func parseVersion(s string) uint64 {
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}
