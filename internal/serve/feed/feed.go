// Package feed keeps a watch cache equal to one resource of an upstream API server, and proves that
// the cache is current.
//
// A [Feed] connects the necessary parts: a store and its history; a reflector that lists and
// watches the upstream; the sink between reflector and store (sink.go); the watch cache that reads
// the store; and the prover, with which the feed's owner can answer consistent reads (prover.go,
// proofwatch.go, turns.go). The proxy uses one feed per resource, and the watch caches in the
// simulation use feeds too.
package feed

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Config configures a Feed. Upstream, Encoding and Cache.Resource are required; the zero value of
// every other field works.
type Config struct {
	// Upstream is the API server. Requests for proofs use a separate connection to it, unless one of
	// them has failed.
	Upstream *rest.Config
	// Encoding is the encoding of the upstream's responses and of the objects in the store.
	Encoding wire.Encoding
	// LogBytes bounds the change log. A longer log lets a WATCH resume from an older resourceVersion.
	// 0: 8 MiB.
	LogBytes int64
	// Cache configures the watch cache. New sets its Store, Encoding, Clock and History.
	Cache watchcache.Config
	// Reflector configures the reflector. New sets its Encoding. Its Mode must not be WatchList,
	// because the sink would treat initial events as changes.
	Reflector reflector.Config
	// ProofTimeout bounds how long ProveCurrent, ProveVersion and NewestVersion wait. It is also the
	// timeout of a short WATCH for a proof; kube-apiserver sends the bookmark of such a WATCH two
	// seconds before its end. 0: 3 s.
	ProofTimeout time.Duration
	// Reserve is called before n bytes are stored. If it returns an error, the bytes are not stored
	// and the feed ends. nil: no bound.
	Reserve func(n int) error
	// OnListed is called once, when the first list is complete. It may be nil.
	OnListed func()
	// OnRefuse is called when only a new Feed can represent the upstream. It receives the error that
	// Run returns afterwards: ErrWentBack, ErrRelistTooLarge, or an error of Reserve. It may be nil.
	// The goroutine of Run calls OnListed and OnRefuse while it holds no lock.
	OnRefuse func(error)
	// Stats counts what the feed receives and requests. Several feeds of one resource may share it.
	// nil: the feed uses its own counters.
	Stats *Stats
	// Requests counts the requests to the upstream, and their bytes. It may be nil.
	Requests *source.Stats
}

// Stats counts the objects and events that feeds received, and the requests that they sent for
// proofs.
type Stats struct {
	Events         atomic.Uint64 // events of watches
	InitialObjects atomic.Uint64 // objects of first lists
	VersionQueries atomic.Uint64 // LISTs that requested the upstream's newest resourceVersion
	ProofWatches   atomic.Uint64 // short WATCHes that waited for a bookmark
}

// Feed is one store and everything between the store and its upstream. A Feed is created before the
// first list. Its owner replaces it when only a new store can represent the upstream. All methods
// are safe for concurrent use.
type Feed struct {
	store     *store.Store
	cache     *watchcache.Cache
	sink      *sink
	reflector *reflector.Reflector
	prover    *prover
	closers   []func() // close the parts that New created, in the order of their creation
}

// New returns a feed that sends no request until Run. The caller must call Close. New returns an
// error if Upstream or Cache is invalid.
func New(cfg Config) (_ *Feed, err error) {
	resource := source.Resource{GVR: cfg.Cache.Resource.GroupVersionResource, Encoding: cfg.Encoding}
	opts := source.Options{Stats: cfg.Requests}
	src, err := source.New(cfg.Upstream, resource, opts)
	if err != nil {
		return nil, err
	}
	proofs, err := newProofSource(cfg.Upstream, resource, opts)
	if err != nil {
		return nil, err
	}
	f := &Feed{closers: []func(){src.CloseIdleConnections, proofs.CloseIdleConnections}}
	if err := f.build(cfg, src, proofs); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// build creates the parts of the feed. The prover has two sources: it starts with the argument
// proofs, and changes to the other source (src, or back to proofs) after each failed request.
func (f *Feed) build(cfg Config, src, proofs source.Source) (err error) {
	setDefaults(&cfg)
	f.store = store.New(store.Config{Encoding: cfg.Encoding, LogBytes: cfg.LogBytes, KeepLog: true})
	f.closers = append(f.closers, f.store.Close)
	f.sink = &sink{
		Writer: f.store.Writer(store.Scope{}), store: f.store, history: watchcache.NewHistory(0, 0, 0),
		stats: cfg.Stats, reserve: cfg.Reserve, onListed: cfg.OnListed, onRefuse: cfg.OnRefuse,
	}
	cfg.Cache.Store, cfg.Cache.Encoding, cfg.Cache.Clock, cfg.Cache.History = f.store, cfg.Encoding, f.sink, f.sink.history
	if f.cache, err = watchcache.New(cfg.Cache); err != nil {
		return err
	}
	f.closers = append(f.closers, f.cache.Close)
	cfg.Reflector.Encoding = cfg.Encoding
	f.reflector = reflector.New(src, f.sink, cfg.Reflector)
	f.prover = newProver([]source.Source{proofs, src}, f.sink, f.reflector.Status, cfg.ProofTimeout)
	f.closers = append(f.closers, f.prover.close)
	return nil
}

func setDefaults(cfg *Config) {
	cfg.ProofTimeout = cmp.Or(cfg.ProofTimeout, defaultProofTimeout)
	if cfg.Reserve == nil {
		cfg.Reserve = func(int) error { return nil }
	}
	if cfg.OnListed == nil {
		cfg.OnListed = func() {}
	}
	if cfg.OnRefuse == nil {
		cfg.OnRefuse = func(error) {}
	}
	cfg.Stats = cmp.Or(cfg.Stats, &Stats{})
}

// Run lists and watches the upstream until ctx ends, and then returns the cause of ctx. It returns
// earlier with the error that OnRefuse received. After Run has returned, no proof succeeds any
// more, and the cache still serves the objects in the store. Run may be called only once.
func (f *Feed) Run(ctx context.Context) error {
	defer f.prover.close()
	return f.reflector.Run(ctx)
}

// Close closes the cache, the store and idle connections. Run must not be running.
func (f *Feed) Close() {
	for _, c := range slices.Backward(f.closers) {
		c()
	}
}

// Store returns the store. The caller must only read it.
func (f *Feed) Store() *store.Store { return f.store }

// Cache returns the watch cache. It answers 429 until the first list is complete.
func (f *Feed) Cache() *watchcache.Cache { return f.cache }

// Reflector returns the reflector. The caller must only read its state.
func (f *Feed) Reflector() *reflector.Reflector { return f.reflector }

// Version returns the resourceVersion up to which the store is current. 0: the first list is not
// complete.
func (f *Feed) Version() uint64 { return f.sink.version() }

// WaitVersion blocks until the feed has reached a resourceVersion. It sends no request. It returns
// ctx's error if ctx ends first.
func (f *Feed) WaitVersion(ctx context.Context, resourceVersion uint64) error {
	return f.sink.Wait(ctx, resourceVersion)
}

// ProveVersion blocks until the feed has reached a resourceVersion, and reports whether it has. If
// the feed is older, ProveVersion usually opens a short WATCH of the upstream. It returns false if
// this WATCH does not show that the feed has reached the resourceVersion. It returns false at the
// latest after Config.ProofTimeout.
func (f *Feed) ProveVersion(ctx context.Context, resourceVersion uint64) bool {
	return f.prover.proveVersion(ctx, resourceVersion)
}

// ProveCurrent blocks until the feed is at least as new as the upstream was at the time of the
// call, and reports whether it is. It returns false after Config.ProofTimeout, when ctx ends, if
// the feed does not watch the upstream, or if the upstream went back in time.
func (f *Feed) ProveCurrent(ctx context.Context) bool { return f.prover.proveCurrent(ctx) }

// NewestVersion returns the upstream's newest resourceVersion. Concurrent callers share one
// request.
func (f *Feed) NewestVersion(ctx context.Context) (uint64, error) {
	return f.prover.newestVersion(ctx)
}

// LastHeard returns the last time at which the upstream confirmed the feed's state. Except for
// events in transit, the feed is at least as new as the upstream was then.
func (f *Feed) LastHeard() time.Time {
	at := f.reflector.Status().CurrentAt
	if proven := time.Unix(0, f.prover.provenAt.Load()); proven.After(at) {
		return proven
	}
	return at
}

// Bytes returns the sum of the memory of the store, the history, the cache of encoded events, the
// cache of paged states, and a relist in progress.
func (f *Feed) Bytes() int64 {
	cache := f.cache.Stats()
	return f.store.Memory().Total() + f.sink.history.Bytes() + cache.EncodeCacheBytes + cache.PagedBytes + f.sink.relistedBytes.Load()
}
