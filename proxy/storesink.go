package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// storeSink is the reflector's Sink. It writes what the reflector receives into a store, so that
// each state of the store is one that the upstream had, and its resourceVersion is known. It is the
// cache's Clock.
//
// Changes are applied one by one in the order of their resourceVersions, also those found by a
// relist. A client that breaks off in the middle resumes at another replica from its last
// resourceVersion, and must not miss changes with lower ones. Nobody knows when an object was
// deleted that a relist finds gone. Such deletions come first, with no newer resourceVersion than
// the client had: if it breaks off then, it gets some of them again and misses none. The states
// between the last one and the relist's are a gap in the history. A client that resumes from there,
// having seen them elsewhere, is forwarded.
type storeSink struct {
	*store.Writer
	store          *store.Store
	history        *watchcache.History
	enc            wire.Encoding
	onListed       func()          // called once, after the first list
	endSession     func(error)     // called if only a new store helps, see refuse
	reserve        func(int) error // called before bytes are stored; an error forbids that
	events         *atomic.Uint64  // of watches
	initialObjects *atomic.Uint64  // of first lists

	// mu is held while the store and the history change together, and while both are read.
	mu sync.Mutex
	// listed says that the first list is complete. The reflector's goroutine writes it under mu.
	listed    bool
	recorded  uint64                    // newest version in history; likewise
	coalesced uint64                    // up to here the upstream coalesces changes; likewise
	proven    atomic.Uint64             // nothing has changed up to here; see prove. Written under mu
	waiters   map[*proofWaiter]struct{} // one for each caller of Wait

	refused error // why nothing is taken any more; nil: it is. The reflector's goroutine uses it

	// The reflector's goroutine uses these fields, for the relist in progress.
	relisted      []relistedObject
	versionBefore uint64 // the store's version before it
	otherPast     bool   // it has an object in an old version that the store did not have

	relistedBytes atomic.Int64
}

// relistedObject is an object of a relist that differs from the store's.
type relistedObject struct {
	rv  uint64
	raw []byte
}

// maxRelistedBytes bounds the objects that a relist buffers to sort them.
const maxRelistedBytes = 32 << 20

var (
	errWentBack       = errors.New("the upstream went back in time")
	errRelistTooLarge = errors.New("a relist found too much that had changed to put it in order")
)

// Observe implements watchcache.Clock.
func (sk *storeSink) Observe(fn func(resourceVersion uint64)) {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if sk.listed { // an incomplete relist may have changed what has no resourceVersion of its own
		sk.recordVersion(sk.recorded)
	}
	fn(sk.newest())
}

// version returns the resourceVersion that the store is current to.
func (sk *storeSink) version() uint64 {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	return sk.newest()
}

// newest returns version, for callers that cannot wait for the lock, or hold it. A change that is
// being applied may count already.
func (sk *storeSink) newest() uint64 {
	return max(resourceversion.Number(sk.store.ResourceVersion()), sk.proven.Load())
}

// Wait implements watchcache.Clock. When it returns, the history is current too.
func (sk *storeSink) Wait(ctx context.Context, resourceVersion uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &proofWaiter{resourceVersion, func() { cancel(errProven) }}
	sk.mu.Lock()
	if sk.proven.Load() >= resourceVersion {
		w.done()
	}
	if sk.waiters == nil {
		sk.waiters = map[*proofWaiter]struct{}{}
	}
	sk.waiters[w] = struct{}{}
	sk.mu.Unlock()
	err := sk.store.WaitResourceVersion(ctx, resourceversion.Format(resourceVersion))
	sk.mu.Lock()
	delete(sk.waiters, w)
	sk.mu.Unlock()
	if err != nil && !errors.Is(context.Cause(ctx), errProven) {
		return err
	}
	sk.Observe(func(uint64) {})
	return nil
}

// proofWaiter is a caller of Wait, which a proof may wake.
type proofWaiter struct {
	rv   uint64
	done func()
}

// errProven is the cause that ends a wait for a proven resourceVersion.
var errProven = errors.New("proven")

// prove records that the store is the state at rv: every change up to rv is in it.
func (sk *storeSink) prove(rv uint64) {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if !sk.listed || sk.coalesced > 0 || rv <= sk.newest() {
		return
	}
	sk.proven.Store(rv)
	sk.recordVersion(rv)
	for w := range sk.waiters {
		if w.rv <= rv {
			w.done()
		}
	}
}

// contradicts reports whether a new change at rv falls into what was proven unchanged. Then the
// upstream has gone back. The caller holds the lock.
func (sk *storeSink) contradicts(rv uint64) bool {
	return rv > 0 && rv <= sk.proven.Load() && rv > resourceversion.Number(sk.store.ResourceVersion())
}

// Err implements reflector.Sink. Once something was refused, it ends the reflector: a later
// resourceVersion, or the end of a list, would say that the store has what was refused.
func (sk *storeSink) Err() error {
	if sk.refused != nil {
		return sk.refused
	}
	return sk.Writer.Err()
}

// refuse ends the session, and returns why. Nothing may be taken any more.
func (sk *storeSink) refuse(why error) error {
	sk.refused = why
	sk.endSession(why)
	return why
}

// Take implements reflector.Sink.
func (sk *storeSink) Take(t wire.EventType, m *wire.Meta, object []byte, _ any) error {
	if err := sk.take(t, m, object); err != nil {
		return reflector.Refusal{Err: err}
	}
	return nil
}

func (sk *storeSink) take(t wire.EventType, m *wire.Meta, object []byte) error {
	if err := sk.reserve(len(object)); err != nil {
		return sk.refuse(err)
	}
	switch {
	case t == 0 && !sk.listed:
		sk.initialObjects.Add(1)
		return sk.Put(m, object)
	case t == 0:
		return sk.takeListed(m, object)
	}
	sk.events.Add(1)
	sk.mu.Lock()
	defer sk.mu.Unlock()
	rv := resourceversion.Number(m.ResourceVersion)
	if sk.contradicts(rv) {
		return sk.refuse(errWentBack)
	}
	if rv >= sk.coalesced {
		sk.settle()
	}
	before := sk.store.Revision()
	var err error
	if t == wire.Deleted {
		err = sk.Delete(m, object)
	} else {
		err = sk.Put(m, object)
	}
	if rv < sk.coalesced {
		sk.Flush()
		return err
	}
	sk.Progress(string(m.ResourceVersion))
	if sk.Flush(); sk.store.Revision() > before { // a large object is applied by Put itself
		sk.recordVersion(rv)
	}
	return err
}

// Coalesced implements reflector.Sink, for an upstream that is such a cache itself. What it found
// by a relist is passed on like what this one finds by a relist.
func (sk *storeSink) Coalesced(resourceVersion string) {
	sk.Writer.Coalesced(resourceVersion)
	sk.mu.Lock()
	defer sk.mu.Unlock()
	upTo := resourceversion.Number(resourceVersion)
	switch {
	case !sk.listed:
	case upTo == 0:
		sk.settle()
	default:
		if from := max(sk.newest(), sk.recorded) + 1; sk.coalesced == 0 && from < upTo {
			sk.history.AddGap(from)
		}
		sk.history.BeginRelist(sk.store.Revision(), upTo)
		sk.coalesced = max(sk.coalesced, upTo)
	}
}

// settle notes that the upstream sends each change from now on. The caller holds the lock.
func (sk *storeSink) settle() {
	if sk.coalesced > 0 {
		sk.history.EndRelist(sk.store.Revision())
		sk.recordVersion(sk.coalesced) // ends the gap: a bookmark may be all that comes
		sk.coalesced = 0
	}
}

// recordVersion records in the history that the store is the state at rv, so that a WATCH can
// resume there. The caller holds the lock.
func (sk *storeSink) recordVersion(rv uint64) {
	sk.recorded = max(sk.recorded, rv)
	sk.history.Add(rv, sk.store.Revision())
}

// takeListed takes an object of a relist. An unchanged object is marked present at once; any other
// is buffered.
func (sk *storeSink) takeListed(m *wire.Meta, object []byte) error {
	rv := resourceversion.Number(m.ResourceVersion)
	stored, ok := sk.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && stored.UID() == string(m.UID)
	has, _ := versionOf(stored)
	sk.otherPast = sk.otherPast || rv > 0 && rv <= sk.versionBefore && has != rv
	if same && has > rv {
		return sk.Put(m, object) // the store decides at the end which version is right
	}
	if unchanged, err := sk.Unchanged(m, object); unchanged || err != nil {
		return err
	}
	if sk.relistedBytes.Add(int64(len(object))) > maxRelistedBytes {
		sk.relisted = nil
		why := errRelistTooLarge
		if sk.otherPast { // nobody will see the end of the list
			why = errWentBack
		}
		return sk.refuse(why)
	}
	sk.relisted = append(sk.relisted, relistedObject{rv, slices.Clone(object)})
	if same {
		return sk.markPresent(stored)
	}
	return nil // another object has the key now: its deletion comes first
}

// versionOf returns the resourceVersion of a stored object; ok is false if there is none.
func versionOf(stored *store.Object) (rv uint64, ok bool) {
	if stored == nil {
		return 0, false
	}
	return stored.ResourceVersionNumber()
}

// markPresent marks that an object still exists, in another version.
func (sk *storeSink) markPresent(stored *store.Object) error {
	raw, err := stored.AppendRaw(nil)
	if err != nil {
		return err
	}
	var m wire.Meta
	if err := wire.ReadMeta(sk.enc, raw, &m); err != nil {
		return err
	}
	return sk.Put(&m, raw)
}

// BeginReplace implements reflector.Sink.
func (sk *storeSink) BeginReplace(rebase bool) {
	sk.dropRelisted()
	sk.versionBefore, sk.otherPast = resourceversion.Number(sk.store.ResourceVersion()), false
	sk.Writer.BeginReplace(rebase)
	if rebase && sk.listed {
		_ = sk.refuse(errWentBack)
	}
}

// AbortReplace implements reflector.Sink.
func (sk *storeSink) AbortReplace() {
	sk.dropRelisted()
	sk.Writer.AbortReplace()
}

func (sk *storeSink) dropRelisted() {
	sk.relisted = nil
	sk.relistedBytes.Store(0)
}

// EndReplace implements reflector.Sink. A list that is not older than the store, and has an
// object in an old version that the store did not have, shows another past: the upstream was
// restored from a backup and has reached the same resourceVersions again. Watchers must not get its
// objects as changes.
func (sk *storeSink) EndReplace(resourceVersion string) {
	if !sk.listed {
		sk.endFirstList(resourceVersion)
		return
	}
	end := resourceversion.Number(resourceVersion)
	if sk.otherPast && end >= sk.versionBefore {
		sk.AbortReplace()
		_ = sk.refuse(errWentBack)
		return
	}
	slices.SortStableFunc(sk.relisted, func(a, b relistedObject) int { return cmp.Compare(a.rv, b.rv) })
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if slices.ContainsFunc(sk.relisted, func(c relistedObject) bool { return sk.contradicts(c.rv) }) {
		sk.AbortReplace()
		_ = sk.refuse(errWentBack)
		return
	}
	at := sk.recorded
	if end > sk.versionBefore {
		if from := max(sk.versionBefore, at) + 1; from < end {
			sk.history.AddGap(from)
		}
		at = end
	}
	sk.history.BeginRelist(sk.store.Revision(), at)
	sk.Writer.EndReplace(resourceVersion)
	var m wire.Meta
	for _, c := range sk.relisted {
		if wire.ReadMeta(sk.enc, c.raw, &m) != nil || sk.Put(&m, c.raw) != nil {
			continue // it was read before; the object's next event brings it
		}
		sk.Flush() // one by one, in this order
	}
	sk.recordVersion(at)
	sk.history.EndRelist(sk.store.Revision())
	sk.coalesced = 0
	sk.dropRelisted()
}

// endFirstList completes the first list.
func (sk *storeSink) endFirstList(resourceVersion string) {
	sk.mu.Lock()
	sk.Writer.EndReplace(resourceVersion)
	sk.recorded = resourceversion.Number(resourceVersion)
	sk.history.Reset(sk.recorded, sk.store.Revision())
	sk.listed = true
	sk.mu.Unlock()
	sk.onListed()
}
