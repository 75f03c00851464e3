package store

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/pack"
	"github.com/weirproject/weir/internal/wire"
)

// Config configures a Store. The zero value of each field works.
type Config struct {
	// Encoding is the encoding of the raw bytes that writers put. Zero: wire.JSON.
	Encoding wire.Encoding
	// Decode returns the decoded value of an object: a pointer. It must not keep raw. Whoever calls
	// Object.Decoded calls it, without a lock of the store, and several goroutines may do so at
	// once. nil: Object.Decoded returns ErrNoDecoder.
	Decode func(raw []byte) (any, error)
	// DecodeCopy is Decode for Object.DecodeCopy: what it returns shares nothing that can be changed
	// with any other value. nil: Decode, which then must not return values that share such either.
	DecodeCopy func(raw []byte) (any, error)
	// DecodedBudget bounds the bytes, estimated from the raw size, of the decoded objects that the
	// store itself holds. Beyond it, those go that were not read recently. Half of it at most is
	// for those that have just changed (see Store.CacheLatest), and half for those that handlers
	// are about to get (see Store.CacheForHandlers): together they can take all of it for a while.
	// 0: these two have 32 MiB each, and what is read has no bound.
	DecodedBudget int64
	// DecodedIdle is how long a decoded object is held after its last read, give or take an eighth.
	// 0: one minute.
	DecodedIdle time.Duration
	// LogBytes bounds the change log: its records, and the old versions that only the log keeps
	// alive. 0: 8 MiB.
	LogBytes int64
	// KeepLog keeps the log, up to LogBytes, even when every cursor has passed it, for CursorAt.
	// false: what every cursor has seen is dropped at once.
	KeepLog bool
	// DeletedBytes returns how many bytes the caller holds of deleted objects, for Memory.Deletions.
	// It must not call the store. nil: none.
	DeletedBytes func() int64
}

// Store holds the objects of one resource. It is safe for concurrent use.
type Store struct {
	decoder *cachedDecoder
	packer  *pack.Packer
	layout  atomic.Pointer[layout] // of the dictionary that was packed with last
	log     *changeLog             // its lock is taken inside mu

	revised atomic.Uint64 // the revision, to be read without mu
	// changes counts the revisions that did not belong to a writer's first state.
	changes atomic.Uint64
	derives atomic.Pointer[[]*funcIndex] // the same as funcs, likewise; nil: there are none
	blocked atomic.Int32                 // how many calls of Derive were left to themselves

	// writing is held while a writer changes anything: writers take turns. What mu guards changes
	// only while both are held, so a writer reads it holding writing alone. It is outside mu.
	writing   sync.Mutex
	batch     *batch    // nil: nothing is buffered
	fastSince time.Time // when a cursor was last behind while objects came fast
	cameFast  time.Time // when objects came fast last, outside a replace

	mu          sync.RWMutex
	table       tree[string, *Object]
	revision    uint64
	raw         int64     // bytes of the objects in the table as they came
	packed      int64     // and packed
	keys        int64     // and of their keys
	replaced    int64     // bytes of all versions that were in the table and no longer are
	snap        *Snapshot // of this revision, if a reader has asked for one
	byteIndexes *byteIndexSet
	writers     map[*Writer]struct{}
	deletions   deletions
	deleted     func() int64 // Config.DeletedBytes
	serverGen   uint32       // how often the server has gone back; see owners.go
	funcs       map[string]*funcIndex
	reserved    map[string]struct{} // names of indexes that are being built
	waiting     waiters             // for a resourceVersion
	// becameSynced is closed when the store has become synced. nil: no caller waits for that.
	becameSynced chan struct{}
	closed       atomic.Bool

	list decodedList // has a lock of its own, outside all others
}

// New returns an empty store. Call Close to end what it has started.
func New(cfg Config) *Store {
	if cfg.Encoding == 0 {
		cfg.Encoding = wire.JSON
	}
	if cfg.DecodeCopy == nil {
		cfg.DecodeCopy = cfg.Decode
	}
	decoder := &cachedDecoder{
		encoding:   cfg.Encoding,
		decode:     cfg.Decode,
		decodeCopy: cfg.DecodeCopy,
		cache:      newDecodedCache(cfg.DecodedIdle, cfg.DecodedBudget),
	}
	s := &Store{
		decoder:  decoder,
		packer:   pack.New(),
		log:      newChangeLog(cfg.LogBytes, cfg.KeepLog),
		table:    newTree[string, *Object](strings.Compare),
		writers:  make(map[*Writer]struct{}),
		deleted:  cfg.DeletedBytes,
		funcs:    make(map[string]*funcIndex),
		reserved: make(map[string]struct{}),

		byteIndexes: &byteIndexSet{},
	}
	s.list.store = s
	s.layout.Store(&layout{cachedDecoder: decoder})
	return s
}

// Close closes all cursors, ends all waiting with ErrClosed, and ends the goroutine that lets go of
// idle decoded objects; it blocks until that goroutine has ended. What is held can still be read.
// Writers get ErrClosed. Closing again does nothing.
func (s *Store) Close() {
	s.closed.Store(true)
	s.mu.Lock()
	s.announceLocked()
	s.mu.Unlock()
	s.log.close()
	s.decoder.cache.close()
	s.list.close()
}

// Encoding returns the encoding of the raw bytes.
func (s *Store) Encoding() wire.Encoding { return s.decoder.encoding }

// Revision returns the store's own counter, which grows by one with each change of an object.
func (s *Store) Revision() uint64 { return s.revised.Load() }

// Changes returns how many changes of an object there were, without those that made up the first
// state of a writer.
func (s *Store) Changes() uint64 { return s.changes.Load() }

// Get returns the newest version of the object under key, and false if there is none.
func (s *Store) Get(key string) (*Object, bool) {
	s.mu.RLock()
	o, ok := s.table.get(key)
	s.mu.RUnlock()
	return o, ok
}

// Len returns the number of objects held.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.count
}
