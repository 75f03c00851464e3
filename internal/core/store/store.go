package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/pack"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// Config configures a Store. The zero value of each field works.
type Config struct {
	// Encoding is the encoding of the raw bytes that writers put. The default is wire.JSON.
	Encoding wire.Encoding
	// Decode returns the decoded value of an object, usually a pointer. It must not retain raw.
	// Object.Decoded calls it in the caller's goroutine, without a lock of the store; several
	// goroutines may call it at the same time. earlier is an earlier version of the object, or nil;
	// the new value may share memory with earlier.Value. If Decode is nil, Object.Decoded returns
	// ErrNoDecoder.
	Decode func(raw []byte, earlier *codec.Version) (any, error)
	// DecodeCopy is called by Object.DecodeCopy in place of Decode. Its value must share no mutable
	// memory with any other value, and earlier is nil. If DecodeCopy is nil, the store calls Decode
	// instead. Then the values of Decode must not share mutable memory either.
	DecodeCopy func(raw []byte, earlier *codec.Version) (any, error)
	// DecodedBudget bounds the decoded objects that the store keeps, in bytes that are estimated from
	// the raw size. The objects that are read repeatedly count, and so do the objects that handlers
	// are about to receive (see Store.Values). The latter use at most half of the budget. If the
	// budget is exceeded, the store releases objects that were not read recently. If DecodedBudget is
	// 0, the objects that are read repeatedly have no bound.
	DecodedBudget int64
	// DecodedIdle is how long the store keeps a decoded object after its last read, with a tolerance
	// of an eighth. The default is one minute.
	DecodedIdle time.Duration
	// LogBytes is the maximum size of the change log: of its records, and of the old versions that
	// only the log keeps in memory. The decoded values that the log keeps for handlers have a separate
	// bound of the same size, and so have the changes that relists stage. The default is 8 MiB.
	LogBytes int64
	// With KeepLog, the store keeps records of the log for CursorAt even after every cursor has passed
	// them, up to LogBytes. Without KeepLog, it drops a record when every cursor has passed it.
	KeepLog bool
}

// Store stores the objects of one resource. It is safe for concurrent use.
type Store struct {
	decoder *cachedDecoder
	packer  *pack.Packer
	layout  atomic.Pointer[layout] // of the newest dictionary
	log     *changeLog             // its lock is taken inside mu

	revised atomic.Uint64 // a copy of revision, for reads without mu
	// changes is the number of revisions, without the revisions of first replaces.
	changes atomic.Uint64
	// derives is a copy of funcs, for reads without mu. It is nil if there is no index by function.
	derives atomic.Pointer[[]*funcIndex]
	blocked atomic.Int32 // calls of Derive that have returned before their functions

	// A writer holds writing while it writes, so only one writer at a time writes. The fields that mu
	// guards change only while both locks are held, so a writer may read them while it holds only
	// writing. Lock writing before mu.
	writing  sync.Mutex
	batch    *batch       // nil: no changes are buffered
	cameFast time.Time    // when objects last arrived frequently (see fastTime), outside a replace
	staged   atomic.Int64 // bytes of the changes that relists have staged; changes with writing held

	mu          sync.RWMutex
	table       tree[string, *Object]
	revision    uint64
	raw         int64     // bytes of the objects in the table, as received
	packed      int64     // their bytes as packed
	keys        int64     // the bytes of their keys
	replaced    int64     // bytes of all versions that have left the table
	snap        *Snapshot // of this revision, if a reader has requested one
	byteIndexes *byteIndexSet
	writers     map[*Writer]struct{}
	deletions   deletions
	serverGen   uint32 // how often the server went back in time; see owners.go
	funcs       map[string]*funcIndex
	indexNames  map[string]struct{} // of all indexes, also of those that are being built
	waiting     []*waiter           // calls of WaitResourceVersion, the lowest version first
	// becameSynced is closed when the store becomes synced. It is nil if no caller waits for that.
	becameSynced chan struct{}
	closed       atomic.Bool

	list decodedList // has a separate lock, which is taken before all others
}

// New returns an empty store. Call Close to stop its goroutines.
func New(cfg Config) *Store {
	cfg.Encoding = cmp.Or(cfg.Encoding, wire.JSON)
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
		decoder: decoder,
		packer:  pack.New(),
		log:     newChangeLog(cfg.LogBytes, cfg.KeepLog, decoder.cache),
		table:   tree[string, *Object]{cmp: strings.Compare},
		writers: make(map[*Writer]struct{}),
		funcs:   make(map[string]*funcIndex),

		indexNames:  make(map[string]struct{}),
		byteIndexes: &byteIndexSet{},
	}
	s.list.store = s
	s.layout.Store(&layout{cachedDecoder: decoder})
	return s
}

// Close closes all cursors, ends all waits with ErrClosed, and ends the goroutine that drops idle
// decoded objects; it blocks until that goroutine has ended. Objects can still be read after Close.
// Writers return ErrClosed. Further calls are no-ops.
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

// Revision returns the store's revision, which increases by one with each change of an object. It
// is not a resourceVersion.
func (s *Store) Revision() uint64 { return s.revised.Load() }

// Changes returns the number of changes of objects. It does not count the changes of a writer's
// first replace (its first list).
func (s *Store) Changes() uint64 { return s.changes.Load() }

// Get returns the newest version of the object under key, and false if there is none.
func (s *Store) Get(key string) (*Object, bool) {
	s.mu.RLock()
	o, ok := s.table.get(key)
	s.mu.RUnlock()
	return o, ok
}

// Len returns the number of stored objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.count
}

// announceLocked wakes only the callers whose condition is met, because thousands of callers may
// wait for a later resourceVersion. The caller holds the lock.
func (s *Store) announceLocked() {
	closed := s.closed.Load()
	if s.becameSynced != nil && (closed || s.syncedLocked()) {
		close(s.becameSynced)
		s.becameSynced = nil
	}
	reached := s.reachedLocked()
	n := 0
	for ; n < len(s.waiting) && (closed || s.waiting[n].want <= reached); n++ {
		w := s.waiting[n]
		if w.want > reached {
			w.err = ErrClosed
		}
		close(w.done)
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
}

// waiter is a waiting call of WaitResourceVersion.
type waiter struct {
	want uint64
	done chan struct{} // closed when the store has reached want, or is closed
	err  error         // ErrClosed or nil, set before done is closed
}

// Synced reports whether the store has a writer and every writer has ended its first replace, which
// is its first list.
func (s *Store) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.syncedLocked()
}

func (s *Store) syncedLocked() bool {
	for w := range s.writers {
		if !w.synced {
			return false
		}
	}
	return len(s.writers) > 0
}

// WaitSynced blocks until Synced, and then returns nil. The error is the cause of ctx, or
// ErrClosed.
func (s *Store) WaitSynced(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.syncedLocked() {
			s.mu.Unlock()
			return nil
		}
		if s.closed.Load() {
			s.mu.Unlock()
			return ErrClosed
		}
		if s.becameSynced == nil {
			s.becameSynced = make(chan struct{})
		}
		synced := s.becameSynced
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-synced: // a writer may have been added after that: check again
		}
	}
}

// ResourceVersion returns the lowest progress of all writers. The store has the state of this
// resourceVersion or a later one. The versions are compared as integers; if one is not an integer,
// they must all be equal. If there is no such version, for example because a writer has made no
// progress yet, ResourceVersion returns "".
func (s *Store) ResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resourceVersionLocked()
}

func (s *Store) resourceVersionLocked() string {
	var lowest *progress
	for w := range s.writers {
		p := &w.progress
		switch {
		case p.text == "":
			return ""
		case lowest == nil || p.ok && lowest.ok && p.rv < lowest.rv:
			lowest = p
		case !(p.ok && lowest.ok) && p.text != lowest.text:
			return ""
		}
	}
	if lowest == nil {
		return ""
	}
	return lowest.text
}

// WaitResourceVersion blocks until all writers have progressed to rv or beyond, compared as
// integers, and then returns nil. After that, readers see what was written to the server at rv. It
// returns immediately for "" and "0".
//
// A writer progresses with the versions that its source reports. If there are several sources, the
// store does not know which of them contains the change at rv, so it waits for the slowest. A
// source in which nothing changes progresses only with its next bookmark, which kube-apiserver
// sends once a minute. The error is the cause of ctx, ErrClosed, or ErrInvalidResourceVersion.
//
// After a writer has found that the server was restored, each writer has no resourceVersion until
// it has ended a replace: resourceVersions from before the restore belong to other states.
func (s *Store) WaitResourceVersion(ctx context.Context, rv string) error {
	if rv == "" {
		return nil
	}
	want, ok := resourceversion.ParseCanonical(rv)
	if !ok {
		return fmt.Errorf("resourceVersion %q: %w", rv, ErrInvalidResourceVersion)
	}
	w := &waiter{want: want, done: make(chan struct{})}
	s.mu.Lock()
	switch {
	case s.reachedLocked() >= want:
		s.mu.Unlock()
		return nil
	case s.closed.Load():
		s.mu.Unlock()
		return ErrClosed
	}
	at, _ := slices.BinarySearchFunc(s.waiting, want, func(w *waiter, want uint64) int { return cmp.Compare(w.want, want) })
	s.waiting = slices.Insert(s.waiting, at, w)
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
	return context.Cause(ctx)
}

// reachedLocked returns the resourceVersion to which all writers have progressed, or 0 if there is
// none.
func (s *Store) reachedLocked() uint64 {
	if len(s.writers) == 0 {
		return 0
	}
	reached := uint64(math.MaxUint64)
	for w := range s.writers {
		if !w.progress.ok || w.progress.serverGen != s.serverGen {
			return 0
		}
		reached = min(reached, w.progress.rv)
	}
	return reached
}

// filling returns the batch to which changes are added. If there is none, it takes one from the
// pool. The callers of filling and of the next three methods hold Store.writing.
func (s *Store) filling() *batch {
	if s.batch == nil {
		s.batch = batches.Get().(*batch)
		s.batch.patches = time.Since(s.cameFast) < fastLasts
	}
	return s.batch
}

// flush applies the batch, and returns the number of changes.
func (s *Store) flush() (changed int) {
	changed = s.applyBatch()
	for w := range s.writers {
		if w.listed && !w.synced { // the writer waits for unconfirmed versions
			w.trySync()
		}
	}
	return changed
}

// flushFull flushes the batch if it is full.
func (s *Store) flushFull() {
	if s.batch.full() {
		s.flush()
	}
}

// applyBatch applies the batch, and returns the number of changes. It holds Store.mu only while it
// applies them.
func (s *Store) applyBatch() (changed int) {
	b := s.batch
	if b == nil {
		return 0
	}
	if !b.listed && b.comesFast() {
		s.cameFast = time.Now()
	}
	b.pack(s)
	s.mu.Lock()
	s.applyLocked(b)
	s.mu.Unlock()
	b.notified = signal(b.woken, b.notified)
	for i := range b.records {
		if old := b.records[i].Old; old != nil && !b.records[i].ofUnknown() {
			s.release(old)
			if d := old.decoded.Load(); d != nil {
				s.decoder.cache.drop(d)
			}
		}
	}
	changed = len(b.records)
	s.batch = nil
	b.release()
	return changed
}

// applyLocked applies the changes of a batch. The callers of applyLocked and of the methods below
// hold Store.mu.
func (s *Store) applyLocked(b *batch) {
	for i := range b.list {
		switch p := &b.list[i]; {
		case p.writer.relist != nil:
			p.writer.stage(p.New)
			p.value = nil
		case p.New != nil:
			s.setLocked(b, p)
		default:
			s.removeLocked(b, p)
		}
	}
	if len(b.records) > 0 {
		s.snap = nil
		for i := range b.records {
			if !b.records[i].Awaited {
				s.changes.Add(1)
			}
		}
		s.revised.Store(s.revision)
		b.publishValues(s)
		b.woken = s.log.append(b.records, s.table.count, b.woken)
		b.keepValues(s)
	}
	for w := range s.writers {
		w.advanceLocked()
	}
	if checking {
		s.checkRecordsLocked(b.records)
	}
}

// removeLocked removes the writer's owner from a version. If it was the last owner, removeLocked
// deletes the version from the table. The deletion of an unknown object it only records.
func (s *Store) removeLocked(b *batch, p *pending) {
	w, old := p.writer, p.Old
	if p.ofUnknown() {
		s.recordLocked(b, p)
		return
	}
	s.deletions.record(w, old, p)
	if old.owners.Load() != w.bit {
		old.owners.And(^w.bit)
		old.marks &^= w.bit
		old.puts &^= w.bit
		return
	}
	s.table.delete(old.key)
	s.keys -= int64(len(old.key))
	s.retireLocked(old)
	s.recordLocked(b, p)
}

// setLocked puts a version in the table.
func (s *Store) setLocked(b *batch, p *pending) {
	w, old, o := p.writer, p.Old, p.New
	owners := w.bit
	if w.replacing {
		o.marks = w.bit
	}
	s.raw += int64(o.size)
	s.packed += int64(len(o.packed))
	if old != nil {
		owners |= old.owners.Load()
		o.marks |= old.marks
		w.overtake(old)
	} else {
		s.keys += int64(len(o.key))
	}
	o.owners.Store(owners)
	if o.serverGen = w.serverGen; w.manual {
		o.serverGen = s.serverGen
	} else {
		o.puts = w.bit
	}
	s.table.set(o.key, o)
	if old != nil {
		s.retireLocked(old)
	}
	p.ResourceVersion = o.number()
	s.recordLocked(b, p)
	o.revision = s.revision
}

// recordLocked records a change of the table for the log, and applies its index changes.
func (s *Store) recordLocked(b *batch, p *pending) {
	b.index.apply(s.byteIndexes, p)
	s.revision++
	p.Revision, p.Awaited = s.revision, p.writer.initial()
	b.records = append(b.records, p.Change)
}

// retireLocked subtracts a version that has left the table from the byte counts.
func (s *Store) retireLocked(old *Object) {
	s.replaced += old.Footprint()
	s.raw -= int64(old.size)
	s.packed -= int64(len(old.packed))
	old.owners.Store(0)
}
