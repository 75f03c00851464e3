package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// storeSink brings what a reflector gets into a store so that each state of it is one that the
// upstream had, and knows which. It is the cache's clock.
//
// Changes come one by one, in the order of their resourceVersions, during a relist too: a client
// that breaks off in the middle of what a relist found goes on, at another replica, from the last
// resourceVersion that it got, and must not miss those with a lower one. When something went that a
// relist finds to be gone, nobody knows. So that comes first, with no newer resourceVersion than
// what the client had before: where it breaks off then, it is told of some of it again, and misses
// none. The states between the last one and the relist's are torn: who goes on from one of these,
// having seen it elsewhere, is answered upstream.
type storeSink struct {
	store          *store.Store
	history        *watchcache.History
	enc            wire.Encoding
	onListed       func()          // told once, after the first list
	endSession     func(error)     // told when only a new store helps
	reserve        func(int) error // told of the bytes that are about to be stored; an error: they must not be
	events         *atomic.Uint64  // of watches
	initialObjects *atomic.Uint64  // objects of first lists

	mu       sync.Mutex                // held while the store and the history change, and by whoever needs them to fit
	listed   bool                      // the first list is in; changed by the reflector's goroutine, under mu
	recorded uint64                    // in history; the same
	proven   uint64                    // nothing has changed up to here: see prove
	waiters  map[*proofWaiter]struct{} // as many as there are callers of Wait

	// Of the reflector's goroutine, about the relist under way.
	relisted      []relistedObject
	versionBefore uint64 // what the store was current to
	otherPast     bool   // the list has an object that was not there before, in a version from then
	wentBack      bool   // it is one of an upstream that went back: nothing of it is taken

	relistedBytes atomic.Int64
}

// relistedObject is an object of a relist that is not what the store holds.
type relistedObject struct {
	rv  uint64
	raw []byte
}

// maxRelistedBytes bounds what a relist puts aside to have it in order.
const maxRelistedBytes = 32 << 20

var (
	errWentBack       = errors.New("the upstream went back in time")
	errRelistTooLarge = errors.New("a relist found too much that had changed to put it in order")
)

// Observe is watchcache.Clock's.
func (sk *storeSink) Observe(fn func(resourceVersion uint64)) {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if sk.listed { // a relist that has not ended, or broke off, may have changed what has no resourceVersion of its own
		sk.recordVersion(sk.recorded)
	}
	fn(sk.versionLocked())
}

// version returns what the store is current to.
func (sk *storeSink) version() uint64 {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	return sk.versionLocked()
}

func (sk *storeSink) versionLocked() uint64 {
	return max(parseVersion(sk.store.ResourceVersion()), sk.proven)
}

// Wait is watchcache.Clock's. It returns when the history fits, too: whoever has waited looks there
// next.
func (sk *storeSink) Wait(ctx context.Context, resourceVersion uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &proofWaiter{resourceVersion, func() { cancel(errProven) }}
	sk.mu.Lock()
	if sk.proven >= resourceVersion {
		w.done()
	}
	if sk.waiters == nil {
		sk.waiters = map[*proofWaiter]struct{}{}
	}
	sk.waiters[w] = struct{}{}
	sk.mu.Unlock()
	err := sk.store.WaitResourceVersion(ctx, formatVersion(resourceVersion))
	sk.mu.Lock()
	delete(sk.waiters, w)
	sk.mu.Unlock()
	if err != nil && !errors.Is(context.Cause(ctx), errProven) {
		return err
	}
	sk.Observe(func(uint64) {})
	return nil
}

// proofWaiter is somebody who waits for a resourceVersion that may be proven.
type proofWaiter struct {
	rv   uint64
	done func()
}

// errProven ends the wait for what has been proven.
var errProven = errors.New("proven")

// prove notes that what the store has is what there is at rv: all that has changed up to there is
// in it. Nobody else need tell of a resourceVersion at which nothing changed.
func (sk *storeSink) prove(rv uint64) {
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if !sk.listed || rv <= sk.versionLocked() {
		return
	}
	sk.proven = rv
	sk.recordVersion(rv)
	for w := range sk.waiters {
		if w.rv <= rv {
			w.done()
		}
	}
}

// contradicts reports whether a change at rv, which is news, is one that was proven not to be: then
// the upstream's past is another now. The lock is held.
func (sk *storeSink) contradicts(rv uint64) bool {
	return rv > 0 && rv <= sk.proven && rv > parseVersion(sk.store.ResourceVersion())
}

func formatVersion(rv uint64) string { return strconv.FormatUint(rv, 10) }

func parseVersion[T ~string | ~[]byte](s T) uint64 {
	v, _ := strconv.ParseUint(string(s), 10, 64)
	return v
}

// take is reflector.Config.Take.
func (sk *storeSink) take(w *store.Writer, t wire.EventType, m *wire.Meta, object []byte) error {
	if err := sk.reserve(len(object)); err != nil {
		return err
	}
	switch {
	case t == 0 && !sk.listed:
		sk.initialObjects.Add(1)
		return w.Put(m, object)
	case t == 0:
		return sk.takeListed(w, m, object)
	}
	sk.events.Add(1)
	var err error
	if t == wire.Deleted {
		err = w.Delete(m, object)
	} else {
		err = w.Put(m, object)
	}
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if sk.contradicts(parseVersion(m.ResourceVersion)) {
		sk.endSession(errWentBack)
		return errWentBack
	}
	w.Progress(string(m.ResourceVersion))
	sk.flush(w, parseVersion(m.ResourceVersion))
	return err
}

// flush applies the one change that is buffered, whose resourceVersion is rv. The lock is held.
func (sk *storeSink) flush(w *store.Writer, rv uint64) {
	if w.Flush() > 0 {
		sk.recordVersion(rv)
	}
}

// recordVersion tells the history that the store has what there is at rv: a WATCH may begin there,
// whatever the log still holds. The lock is held.
func (sk *storeSink) recordVersion(rv uint64) {
	sk.recorded = max(sk.recorded, rv)
	sk.history.Add(rv, sk.store.Revision())
}

// takeListed takes an object of a relist: marked at once where it is held as it is, else put aside.
func (sk *storeSink) takeListed(w *store.Writer, m *wire.Meta, object []byte) error {
	if sk.wentBack {
		return errWentBack
	}
	rv := parseVersion(m.ResourceVersion)
	held, ok := sk.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && held.UID() == string(m.UID)
	has, _ := versionOf(held)
	sk.otherPast = sk.otherPast || rv > 0 && rv <= sk.versionBefore && has != rv
	if same && has > rv {
		return w.Put(m, object) // the store decides at the end which of the two is right
	}
	if known, err := w.Known(m, object); known || err != nil {
		return err
	}
	if sk.relistedBytes.Add(int64(len(object))) > maxRelistedBytes {
		sk.relisted = nil
		sk.endSession(errRelistTooLarge)
		return errRelistTooLarge
	}
	sk.relisted = append(sk.relisted, relistedObject{rv, slices.Clone(object)})
	if same {
		return sk.markPresent(w, held)
	}
	return nil // what has the key now is gone, and so comes first
}

// versionOf returns the resourceVersion of what is held; false: there is none.
func versionOf(held *store.Object) (rv uint64, ok bool) {
	if held == nil {
		return 0, false
	}
	return held.ResourceVersionNumber()
}

// markPresent notes that an object is still there, though in another version.
func (sk *storeSink) markPresent(w *store.Writer, held *store.Object) error {
	raw, err := held.AppendRaw(nil)
	if err != nil {
		return err
	}
	var m wire.Meta
	if err := wire.ReadMeta(sk.enc, raw, &m); err != nil {
		return err
	}
	return w.Put(&m, raw)
}

// BeginReplace is reflector.Replacer's.
func (sk *storeSink) BeginReplace(w *store.Writer, rebase bool) {
	sk.dropRelisted()
	sk.versionBefore, sk.otherPast, sk.wentBack = parseVersion(sk.store.ResourceVersion()), false, rebase && sk.listed
	w.BeginReplace(rebase)
	if sk.wentBack {
		sk.endSession(errWentBack)
	}
}

// AbortReplace is reflector.Replacer's.
func (sk *storeSink) AbortReplace(w *store.Writer) {
	sk.dropRelisted()
	w.AbortReplace()
}

func (sk *storeSink) dropRelisted() {
	sk.relisted = nil
	sk.relistedBytes.Store(0)
}

// EndReplace is reflector.Replacer's. A list that is not older than what was held, and tells of an
// object before that in a version which was not there, is of another past: the upstream was
// restored from a backup, and has come to these resourceVersions again. Those who watch must not be
// told of it as of changes.
func (sk *storeSink) EndReplace(w *store.Writer, resourceVersion string) {
	if !sk.listed {
		sk.endFirstList(w, resourceVersion)
		return
	}
	end := parseVersion(resourceVersion)
	if sk.wentBack || sk.otherPast && end >= sk.versionBefore {
		sk.AbortReplace(w)
		sk.endSession(errWentBack)
		return
	}
	slices.SortStableFunc(sk.relisted, func(a, b relistedObject) int { return cmp.Compare(a.rv, b.rv) })
	sk.mu.Lock()
	defer sk.mu.Unlock()
	if slices.ContainsFunc(sk.relisted, func(c relistedObject) bool { return sk.contradicts(c.rv) }) {
		sk.AbortReplace(w)
		sk.endSession(errWentBack)
		return
	}
	at := sk.recorded
	if end > sk.versionBefore {
		if from := max(sk.versionBefore, at) + 1; from < end {
			sk.history.AddGap(from)
		}
		at = end
	}
	w.EndReplace(resourceVersion)
	var m wire.Meta
	for _, c := range sk.relisted {
		if wire.ReadMeta(sk.enc, c.raw, &m) != nil || w.Put(&m, c.raw) != nil {
			continue // it was read before, and there is nobody to tell: the next event of this object brings it
		}
		w.Flush() // each on its own, in this order
	}
	sk.recordVersion(at)
	sk.dropRelisted()
}

// endFirstList ends the first list.
func (sk *storeSink) endFirstList(w *store.Writer, resourceVersion string) {
	sk.mu.Lock()
	w.EndReplace(resourceVersion)
	sk.recorded = parseVersion(resourceVersion)
	sk.history.Reset(sk.recorded, sk.store.Revision())
	sk.listed = true
	sk.mu.Unlock()
	sk.onListed()
}
